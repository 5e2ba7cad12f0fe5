"""What outputs have of a record that has failed for one of them: the header `towpath.delivered` of its error record.

`["views", ["orders", "0,2-4"]]`: views has all of it; of what orders was to get, it has the first, and the third to the
fifth. When the record comes back it is not for these.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

from towpath.flow.delivery import DeliveryIds, Input

MOST_ORDINALS = 100_000  # that are tried for one record


@dataclass(frozen=True, slots=True)
class Delivered:
    """Outputs that have all of a record, and ordinals of what others have."""

    whole: frozenset[str] = frozenset()
    partly: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.whole or any(self.partly.values()))

    def concerns(self, output: str) -> bool:
        return output in self.whole or output in self.partly

    def has(self, output: str, ordinal: int) -> bool:
        return output in self.whole or ordinal in self.partly.get(output, ())

    def joined(self, other: Self) -> Delivered:
        outputs = self.partly.keys() | other.partly.keys()
        partly = {name: self.partly.get(name, frozenset()) | other.partly.get(name, frozenset()) for name in outputs}
        return Delivered(self.whole | other.whole, partly)

    def to_json(self) -> str:
        partly = [[name, _to_text(self.partly[name])] for name in sorted(self.partly) if self.partly[name]]
        return json.dumps([*sorted(self.whole), *partly])

    @classmethod
    def of_json(cls, text: str) -> Self:
        """`ValueError` when that is not said as it should be."""
        try:
            found = json.loads(text)
        except RecursionError:
            found = None
        if not isinstance(found, list):
            raise ValueError(f"{text[:80]!r} is no list of outputs")
        whole = frozenset(each for each in found if isinstance(each, str))
        try:
            partly = {str(name): _of_text(ordinals) for name, ordinals in (x for x in found if not isinstance(x, str))}
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{text[:80]!r} is no list of outputs") from error
        return cls(whole, partly)


def ordinals_of(ids: Collection[bytes], names: DeliveryIds, input: Input) -> frozenset[int]:
    """The ordinals of deliveries of an input, by their ids."""
    wanted, found = set(ids), set()
    for ordinal in range(MOST_ORDINALS):
        if not wanted:
            break
        id = names.of(*input, ordinal)
        if id in wanted:
            wanted.remove(id)
            found.add(ordinal)
    return frozenset(found)


def _to_text(ordinals: Iterable[int]) -> str:
    runs = []
    for _, run in groupby(enumerate(sorted(ordinals)), lambda each: each[1] - each[0]):
        numbers = [number for _, number in run]
        runs.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(runs)


def _of_text(text: str) -> frozenset[int]:
    found: set[int] = set()
    for run in text.split(","):
        first, _, last = run.partition("-")
        if not 0 <= int(first) <= int(last or first) < 1 << 32:
            raise ValueError(f"{run!r} is no run of ordinals")
        if int(last or first) - int(first) + 1 + len(found) > MOST_ORDINALS:
            raise ValueError(f"there are more than {MOST_ORDINALS} ordinals")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
