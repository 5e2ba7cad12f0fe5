"""What a running stage stands on: the parts of the runtime, its own row, its topics as they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import OffsetOutOfRange, TopicReplaced, UnknownPartition
from towpath.events import Events
from towpath.flow.checkpoint import Checkpoint
from towpath.flow.flow import Flow
from towpath.flow.graph import Stage
from towpath.flow.ledger import Ledger
from towpath.flow.positions import Positions, Range, Spot
from towpath.flow.stage_store import Stage as StageRow
from towpath.flow.stage_store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log
from towpath.log.topic import Topic
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Ground:
    """Parts that do not change while a stage runs, and what `configure` has found."""

    settings: Settings
    database: Database
    events: Events
    event_log: EventLog
    log: Log
    open_spark: Callable[[], SparkSession]
    flow: Flow
    stage: Stage
    owner: str
    row: StageRow
    stages: StageStore
    ledger: Ledger
    found: dict[str, Topic] = field(default_factory=dict)  # what is read, by name

    @property
    def name(self) -> str:
        return f"{self.flow.name}/{self.stage.name}"

    @property
    def topics(self) -> FlowTopics:
        return FlowTopics.of(self.flow.name, self.flow.error_topic)

    @property
    def spark(self) -> SparkSession:
        return self.open_spark()

    @property
    def max_record_bytes(self) -> int:
        return self.flow.max_record_bytes or self.settings.flow.max_record_bytes

    @property
    def input_topics(self) -> list[str]:
        """What the stage reads: its own topics, and what comes back from the desk."""
        return [*self.stage.topics, self.topics.reentry]

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(Path(self.settings.flow.directory), self.flow.name, self.stage.name, self.row.generation)

    @property
    def topic_ids(self) -> dict[str, str]:
        return {name: ids[-1] for name, ids in self.row.topics.items()}

    @property
    def incarnations(self) -> Mapping[str, int]:
        return {name: len(ids) - 1 for name, ids in self.row.topics.items()}

    def look(self) -> None:
        """Find the topics that are read; `UnknownTopic` when one is not there."""
        self.found = {name: self.log.topic(name) for name in self.input_topics}

    def kept(self) -> dict[Spot, int]:
        """The first offset that each partition still has; raises when a topic is not the one that was begun with."""
        kept: dict[Spot, int] = {}
        for name, id in self.topic_ids.items():
            topic = self.log.topic(name)
            if topic.id != id:
                raise TopicReplaced(name, id, topic.id)
            kept |= {(id, number): start for number, start in self.log.starts(name).items()}
        return kept

    def last_stops(self) -> dict[Spot, int]:
        """Where the stage has come to: the end of its last committed batch, or where its generation began."""
        with self.database.read() as tx:
            last = self.ledger.last_committed(tx, self.row.flow, self.row.name, self.row.generation)
        return last.positions.stops if last is not None else self.row.starting.stops

    def positions_of(self, batch_id: int) -> Positions:
        """What a batch reads: from the end of the one before it to where Spark's checkpoint says."""
        before, ids = self.last_stops(), self.topic_ids
        ranges = []
        for (name, number), stop in self.checkpoint.stops(batch_id).items():
            start = before.pop((ids[name], number), 0)
            if stop < start:
                raise OffsetOutOfRange(name, number, start, 0, stop)
            ranges.append(Range(name, ids[name], number, start, stop))
        if before:
            id, number = next(iter(before))
            name = next(name for name, known in ids.items() if known == id)
            raise UnknownPartition(name, number, self.found[name].partitions)
        return Positions.of(ranges)
