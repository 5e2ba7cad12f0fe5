"""What a reset of a flow would do, before it is asked for: what would be passed over, and what read again.

Offsets have holes, so the figures say how many records it is at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from towpath.db import Database
from towpath.flow.ledger import Ledger
from towpath.flow.look import looks
from towpath.flow.positions import Spot
from towpath.flow.stage_store import Stage
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

EARLIEST, LATEST = "earliest", "latest"
MEANS = {
    EARLIEST: "It begins anew at the first record that each topic still has, with a new checkpoint. Records are "
    "loaded again: an index or a table knows them by their ids and takes them once; topics and files get them twice.",
    LATEST: "It goes on with records that come from now on, with a new checkpoint. What was not read yet is never "
    "loaded.",
}


@dataclass(frozen=True, slots=True)
class PartitionAhead:
    """Where a stage is in a partition, and where it would go on."""

    stage: str
    topic: str
    partition: int
    position: int | None  # None: it has read nothing of it
    start: int
    end: int
    goes_on_at: int

    @property
    def passed_over(self) -> int:
        """Offsets that would never be read."""
        return 0 if self.position is None else max(0, self.goes_on_at - max(self.position, self.start))

    @property
    def read_again(self) -> int:
        return 0 if self.position is None else max(0, min(self.position, self.end) - self.goes_on_at)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed_over": self.passed_over, "read_again": self.read_again}


def reset_ahead(database: Database, log: Log, flow: str, to: str, stage: str | None = None) -> list[PartitionAhead]:
    """For each partition of each stage, or of one stage; raises `UnknownFlow`, and `UnknownTopic` for a lost input."""
    return [
        each
        for look in looks(database, flow, stage)
        for each in _partitions(log, look.stage, _stops(database, look.stage), to)
    ]


def _stops(database: Database, stage: Stage) -> Mapping[Spot, int]:
    with database.read() as tx:
        last = Ledger(database).last_committed(tx, stage.flow, stage.name, stage.generation)
    return stage.starting.stops if last is None else last.positions.stops


def _partitions(log: Log, stage: Stage, stops: Mapping[Spot, int], to: str) -> Iterator[PartitionAhead]:
    reentry = FlowTopics.of(stage.flow).reentry
    for name in sorted({*stage.topics, *stage.topology.get("topics", ())}):
        id, ends, starts = log.topic(name).id, log.ends(name), log.starts(name)
        for number, end in sorted(ends.items()):
            position, start = stops.get((id, number)), min(starts.get(number, end), end)
            goes_on = end if to == LATEST else start
            if name == reentry:  # what the desk sent back is neither lost nor read twice
                goes_on = min(position or 0, end)
            yield PartitionAhead(stage.name, name, number, position, start, end, goes_on)
