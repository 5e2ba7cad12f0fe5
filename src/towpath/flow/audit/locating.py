"""Which records it is whose deliveries are missing. Pure.

The ledger knows only the sum of the delivery ids of a batch. If one is missing, the difference of the sums *is* its id.
If several are, they are known where nothing else could be missing: no input of the batch was filtered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from towpath.flow.audit.marks import Marks
from towpath.flow.audit.matching import MOST_ORDINALS
from towpath.flow.audit.spans import runs
from towpath.flow.delivery import DeliveryIds, Digest
from towpath.flow.positions import Range

MOST_CANDIDATES = 2_000  # that are put together in pairs


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one batch, with those of which something was found in the sink or in the error topic."""

    parts: Sequence[tuple[Range, Marks | None]]
    failed: dict[tuple[str, int], Marks]

    def all(self) -> Iterator[tuple[Range, int]]:
        return ((place, offset) for place, _ in self.parts for offset in range(place.start, place.stop))

    def without_trace(self) -> Iterator[tuple[Range, int]]:
        for place, marks in self.parts:
            failed = self.failed.get(place.spot, ())
            for offset in range(place.start, place.stop):
                if (marks is None or offset not in marks) and offset not in failed:
                    yield place, offset


def locate(inputs: Inputs, ids: DeliveryIds, lacking: Digest, missing: int) -> tuple[tuple[Range, ...], bool]:
    """The places of what is missing, and whether it is these and no others; else it is among them."""
    if missing == 1:
        found = _with_id(inputs, ids, lacking)
        if found is not None:
            return (found,), True
    candidates = list(inputs.without_trace())
    made = {ids.of(place.topic_id, place.partition, offset, 0): (place, offset) for place, offset in candidates}
    whole = Digest()
    whole.add_many(made)
    if whole == lacking:
        return _places(candidates), True
    if missing == 2 and len(made) <= MOST_CANDIDATES:
        for id, one in made.items():
            rest = Digest.from_hex(lacking.hex)
            rest.remove(id)
            other = made.get(bytes.fromhex(rest.hex))
            if other is not None and other != one:
                return _places([one, other]), True
    return _places(candidates), False


def find_extra(inputs: Inputs, ids: DeliveryIds, surplus: Digest) -> tuple[Range, ...]:
    """The one input whose delivery is there although the ledger does not count it."""
    found = _with_id(inputs, ids, surplus)
    return () if found is None else (found,)


def _with_id(inputs: Inputs, ids: DeliveryIds, digest: Digest) -> Range | None:
    wanted = bytes.fromhex(digest.hex)
    for ordinal in range(MOST_ORDINALS):
        for place, offset in inputs.all():
            if ids.of(place.topic_id, place.partition, offset, ordinal) == wanted:
                return place._replace(start=offset, stop=offset + 1)
    return None


def _places(candidates: Sequence[tuple[Range, int]]) -> tuple[Range, ...]:
    by_part: dict[Range, list[int]] = {}
    for place, offset in candidates:
        by_part.setdefault(place, []).append(offset)
    return tuple(each for place, offsets in by_part.items() for each in runs(place, offsets))
