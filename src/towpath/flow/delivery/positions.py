"""What a batch reads: a range of offsets in each partition of each input topic, and how one batch follows another.

A topic counts by its id: one that was deleted and made again is another topic. The positions of a batch name every
partition of the stage, also those with nothing new, so that each batch begins where the one before it ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from towpath.errors import BadValue

Spot = tuple[str, int]  # topic id and partition


class OffsetRange(NamedTuple):
    """The offsets from `start` to before `stop`. They need not all hold a record: `stop - start` is never a count."""

    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int

    @property
    def spot(self) -> Spot:
        return self.topic_id, self.partition

    @property
    def is_empty(self) -> bool:
        return self.start == self.stop

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} from {self.start} to {self.stop}"


class PositionBreak(NamedTuple):
    """A partition in which a batch does not begin where the one before it ended. `found` is None when it is missing."""

    topic: str
    topic_id: str
    partition: int
    expected: int
    found: int | None

    def __str__(self) -> str:
        found = "nowhere" if self.found is None else f"at {self.found}"
        return f"{self.topic}/{self.partition} ended at {self.expected} and goes on {found}"


@dataclass(frozen=True, slots=True)
class Positions:
    """The ranges of one batch, by topic, id and partition. Make them with `of`."""

    ranges: tuple[OffsetRange, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> Self:
        """In stable order; `BadValue` when a range runs backwards or a partition is named twice."""
        ordered = tuple(sorted(ranges))
        for each in ordered:
            if not 0 <= each.start <= each.stop or each.partition < 0 or not each.topic_id:
                raise BadValue(f"{each} (topic id {each.topic_id!r}) is not a range of offsets")
        if len({each.spot for each in ordered}) < len(ordered):
            raise BadValue(f"a partition is named twice in {'; '.join(map(str, ordered))}")
        return cls(ordered)

    @property
    def is_empty(self) -> bool:
        """Whether there is no offset to read; such a batch may still run, for timers."""
        return all(each.is_empty for each in self.ranges)

    @property
    def starts(self) -> dict[Spot, int]:
        return {each.spot: each.start for each in self.ranges}

    @property
    def stops(self) -> dict[Spot, int]:
        return {each.spot: each.stop for each in self.ranges}

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def breaks_after(self, before: Positions) -> list[PositionBreak]:
        """Where this batch does not follow the one before it. A partition that is new breaks nothing."""
        starts = self.starts
        return [
            PositionBreak(each.topic, each.topic_id, each.partition, each.stop, starts.get(each.spot))
            for each in before.ranges
            if starts.get(each.spot) != each.stop
        ]

    def joined(self, later: Positions) -> Positions:
        """Both as one, from the first start to the last stop; `BadValue` when the later ones do not follow these."""
        if breaks := later.breaks_after(self):
            raise BadValue(f"these positions do not follow each other: {'; '.join(map(str, breaks))}")
        starts = self.starts
        return Positions.of(each._replace(start=starts.get(each.spot, each.start)) for each in later.ranges)

    def lost(self, kept: Mapping[Spot, int]) -> list[OffsetRange]:
        """What of this was deleted before it was read, given the first offset that each partition still keeps.

        A partition that is not among those kept is gone as a whole.
        """
        gone = (each._replace(stop=min(each.stop, kept.get(each.spot, each.stop))) for each in self.ranges)
        return [each for each in gone if each.start < each.stop]

    def to_value(self) -> list[dict[str, Any]]:
        """`[{"topic": "clicks", "id": "…", "ranges": {"0": [0, 17], "1": [4, 4]}}]`"""
        value: dict[tuple[str, str], dict[str, Any]] = {}
        for each in self.ranges:
            topic = value.setdefault(each[:2], {"topic": each.topic, "id": each.topic_id, "ranges": {}})
            topic["ranges"][str(each.partition)] = [each.start, each.stop]
        return list(value.values())

    @classmethod
    def from_value(cls, value: Iterable[Mapping[str, Any]]) -> Self:
        return cls.of(
            OffsetRange(topic["topic"], topic["id"], int(number), start, stop)
            for topic in value
            for number, (start, stop) in topic["ranges"].items()
        )

    def to_json(self) -> str:
        return json.dumps(self.to_value(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_value(json.loads(text))
