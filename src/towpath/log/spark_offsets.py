"""How far a streaming query has come in the SQLite log, and how far it goes next.

Spark keeps this as text in the checkpoint and takes two texts that differ for news, so the order is always the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

Spots = dict[tuple[str, int], int]  # offset by topic and partition


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The offset to go on from in each partition, and the ids of the topics that these offsets belong to."""

    ids: Mapping[str, str]
    spots: Spots

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        spots = {
            (name, int(number)): int(offset)
            for name, topic in value.items()
            for number, offset in topic["offsets"].items()
        }
        return cls({name: topic["id"] for name, topic in value.items()}, spots)

    def to_json(self) -> dict[str, Any]:
        """`{"clicks": {"id": "…", "offsets": {"0": 17, "1": 4}}}`"""
        value: dict[str, Any] = {name: {"id": self.ids[name], "offsets": {}} for name in sorted(self.ids)}
        for name, number in sorted(self.spots):
            value[name]["offsets"][str(number)] = self.spots[name, number]
        return value


def advance(start: Spots, kept: Spots, ends: Spots, limit: int | None) -> Spots:
    """Where a batch from `start` ends that reads no more than `limit` offsets; it never goes backwards.

    What is below the `kept` starts was deleted and is passed over. Partitions with little to read are read whole; the
    others share the rest evenly, the longest first when there is less than one for each.
    """
    first = {spot: max(start.get(spot, 0), min(kept[spot], end)) for spot, end in ends.items()}
    backlog = {spot: max(0, end - first[spot]) for spot, end in ends.items()}
    room = sum(backlog.values()) if limit is None else limit
    waiting = len(backlog)
    reached = {}
    for spot in sorted(backlog, key=lambda each: (backlog[each], each)):
        taken = min(backlog[spot], room // waiting)
        reached[spot] = first[spot] + taken
        room -= taken
        waiting -= 1
    return {**start, **reached}
