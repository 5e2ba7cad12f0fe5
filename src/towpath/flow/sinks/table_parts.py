"""The deliveries of a unit in parts, each of which becomes one transaction with its mark.

A part ends where its deliveries have come to so many rows or bytes, counted from the unit's beginning, however they
are handed over. Where a part has a mark already, it ends where it ended when the mark was written: what was refused
then may not be among the deliveries this time, because it is not offered twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from towpath.db.table_marks import PartMark, Unit, Why
from towpath.flow.delivery import Digest
from towpath.flow.sinks.sink import Deliveries, Place, Refusal
from towpath.flow.sinks.table_errors import refusal

# On SQLite a transaction holds up all other writers: this much takes some tens of milliseconds.
PART_ROWS = 5_000
PART_BYTES = 4 << 20


@dataclass(slots=True)
class Part:
    """Some deliveries one after the other: whole chunks and ends of chunks."""

    number: int
    pieces: list[tuple[Deliveries, range]] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, deliveries: Deliveries, places: range, size: int) -> None:
        if places:
            self.pieces.append((deliveries, places))
            self.count += len(places)
            self.size += size

    def ids(self) -> list[bytes]:
        found: list[bytes] = []
        for deliveries, places in self.pieces:
            found += deliveries.delivery_ids[places.start : places.stop]
        return found

    def is_in(self, mark: PartMark) -> bool:
        """Whether the mark is of these very deliveries, with or without those that it refused."""
        taken = [id for id in self.ids() if id not in mark.refused]
        return len(taken) == mark.rows and digest_of(taken) == mark.digest

    def mark(self, refused: Mapping[bytes, Why]) -> PartMark:
        taken = [id for id in self.ids() if id not in refused] if refused else self.ids()
        return PartMark(len(taken), digest_of(taken), refused)


class Parts:
    """Cuts what comes into parts."""

    def __init__(self, known: Mapping[int, PartMark]) -> None:
        self._known = known
        self._part = Part(0)

    def cut(self, deliveries: Deliveries) -> Iterator[Part]:
        """The parts that are complete with these."""
        ends = list(accumulate(map(len, deliveries.payloads), initial=0))
        start = 0
        while start < len(deliveries):
            mark = self._known.get(self._part.number)
            stop = self._end(ends, start) if mark is None else self._marked_end(mark, deliveries, start)
            self._part.add(deliveries, range(start, stop), ends[stop] - ends[start])
            start = stop
            if start < len(deliveries) or (mark is None and self._part.count >= PART_ROWS):
                yield self._next()

    def rest(self) -> Iterator[Part]:
        """The last part. A unit without deliveries has one too."""
        if self._part.count or not self._part.number:
            yield self._next()

    def _next(self) -> Part:
        done, self._part = self._part, Part(self._part.number + 1)
        return done

    def _end(self, ends: Sequence[int], start: int) -> int:
        """Up to where deliveries belong to the present part; at least one does."""
        by_bytes = bisect_right(ends, ends[start] + PART_BYTES - self._part.size) - 1
        stop = min(by_bytes, start + PART_ROWS - self._part.count)
        return max(stop, start if self._part.count else start + 1)

    def _marked_end(self, mark: PartMark, deliveries: Deliveries, start: int) -> int:
        taken = sum(id not in mark.refused for id in self._part.ids())
        for at in range(start, len(deliveries)):
            if deliveries.delivery_ids[at] not in mark.refused:
                if taken == mark.rows:
                    return at
                taken += 1
        return len(deliveries)


def unit_of(place: Place) -> Unit:
    """The names of its marks. What was refused in an outage is offered again, so those marks do not count any more."""
    unit = f"{place.unit}#{place.outages}" if place.outages else place.unit
    return Unit(place.flow, place.stage, place.output, place.generation, place.batch_id, unit)


def digest_of(ids: Iterable[bytes]) -> str:
    digest = Digest()
    digest.add_many(ids)
    return digest.hex


def refused_ids(refusals: Iterable[Refusal]) -> dict[bytes, Why]:
    """As a mark keeps them."""
    return {each.deliveries.delivery_ids[each.at]: Why(each.exception, each.message) for each in refusals}


def refused_again(
    refused: Mapping[bytes, Why], pieces: Iterable[tuple[Deliveries, Sequence[int]]]
) -> Iterator[Refusal]:
    """What a mark says was refused, of deliveries that are offered again."""
    if refused:
        for deliveries, places in pieces:
            for at in places:
                if (why := refused.get(deliveries.delivery_ids[at])) is not None:
                    yield refusal(deliveries, at, *why)
