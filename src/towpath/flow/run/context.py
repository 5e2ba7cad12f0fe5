"""What a running stage stands on: the parts of the runtime, its own row, its topics as they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.blocks.rule import BlockBarrier
from towpath.blocks.service import BlockStore
from towpath.core.events import Events
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import DatabaseUnavailable, FlowHalted, OffsetOutOfRange, TopicReplaced, UnknownPartition
from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.ledger import Batch, BatchSnapshot, Ledger
from towpath.flow.delivery.marks import Mark, MarkTopic
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.flow.flow import Flow
from towpath.flow.graph.stages import Stage
from towpath.flow.records.errors import ErrorWriter
from towpath.flow.records.reentry import CancelledReplays, Sent
from towpath.flow.run.checkpoint import Checkpoint
from towpath.flow.run.notifier import BatchNotifier
from towpath.flow.run.timers import TimerStore
from towpath.flow.stage.states import StageCommand
from towpath.flow.stage.store import StageRow, StageStore
from towpath.flow.stateful.column_state import is_column, watermarks
from towpath.flow.topics import FlowTopics
from towpath.flow.worker.context import Reentry
from towpath.log.log import Log
from towpath.log.topic import Topic
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class StageContext:
    """The parts of one stage that do not change while it runs, and what `configure` has found."""

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
    is_deterministic: bool = False  # whether its steps give the same however often they are run
    _sender: BatchNotifier | None = None
    _dues: TimerStore | None = None

    @property
    def name(self) -> str:
        return f"{self.flow.name}/{self.stage.name}"

    @property
    def topics(self) -> FlowTopics:
        return FlowTopics.of(self.flow.name, self.flow.error_topic)

    @property
    def decides(self) -> bool:
        """Whether what comes out of a batch has to be written down before any output is touched."""
        needs_decision = not self.is_deterministic or self.flow.order is not None
        return self.flow.delivery is Strategy.EXACTLY_ONCE and needs_decision

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
        return self.checkpoint_of(self.row.generation)

    def checkpoint_of(self, generation: int) -> Checkpoint:
        return Checkpoint(Path(self.settings.flow.directory), self.flow.name, self.stage.name, generation)

    @property
    def blobs(self) -> Path:
        """Values of error records that are too large for a topic."""
        return Path(self.settings.flow.directory).absolute() / self.flow.name / "blobs"

    @property
    def error_box(self) -> ErrorWriter:
        return ErrorWriter(self.log, self.topics.errors, self.settings.log.max_record_bytes, self.blobs)

    def sender(self) -> BatchNotifier:
        """Tells the topics of the flow what became of a batch."""
        if self._sender is None:
            parts = (self.log, self.topics, self.flow.name, self.stage.name, self.flow.delivery, self.error_box)
            self._sender = BatchNotifier(*parts)
        return self._sender

    @property
    def dues(self) -> TimerStore:
        """When something of what the stage keeps is due."""
        if self._dues is None:
            self._dues = TimerStore(self.database)
        return self._dues

    def units(self, buckets: int) -> BatchSnapshot:
        """Of a batch that is fixed now: its marks come at or after the present end of their topic."""
        event_times, found, blocks = self.event_times(), self.watermarks(), self.blocks()
        if not self.flow.delivery.has_marks:
            return BatchSnapshot(buckets, watermarks=found, event_times=event_times, blocks=blocks)
        id = self.log.topic(self.topics.marks).id  # asked for first: one that is made again meanwhile is found out
        return BatchSnapshot(buckets, MarkTopic(self.log, self.topics.marks).ends(), id, found, event_times, blocks)

    def blocks(self) -> BlockBarrier:
        """The block rules that count now, of those that may be about what the stage reads."""
        with self.database.glance() as tx:
            return BlockStore(self.database).in_force(tx).for_topics(self.stage.topics)

    def event_times(self) -> Mapping[str, int]:
        """The latest of all committed batches, by input of the joins on columns."""
        last = self.last_batch() if any(map(is_column, self.stage.sources)) else None
        return {} if last is None else BatchSnapshot.of_value(last.units).event_times

    def watermarks(self) -> dict[str, int]:
        """Of a batch that is fixed now, by source that joins on columns."""
        last = self.last_batch() if any(map(is_column, self.stage.sources)) else None
        if last is None:
            return {}
        units = BatchSnapshot.of_value(last.units)
        return watermarks(self.stage.sources, units.event_times, units.watermarks)

    def marks_since(self, batch: Batch) -> set[Mark]:
        """The marks that topics have got since a batch was fixed."""
        self.check_marks(batch)
        return MarkTopic(self.log, self.topics.marks).since(BatchSnapshot.of_value(batch.units).marks_since)

    def check_marks(self, batch: Batch) -> None:
        """Whether the topic is there that has the marks of an open batch."""
        id, name = BatchSnapshot.of_value(batch.units).marks_id, self.topics.marks
        if id and self.log.topic(name).id != id:
            raise FlowHalted(
                f"the topic {name} was deleted and made again while batch {batch.batch_id} of {self.name} was open. "
                "With it the marks are gone that say what topics have of the batch, and nobody can say what would be "
                "written twice. Look at the outputs, then let the stage go on behind the batch, or from the beginning "
                f"of what the log has, which delivers it again: towpath flow reset {self.flow.name} --to latest (or "
                "earliest)"
            )

    def check_fence(self, batch: Batch) -> None:
        """Whether a reset was begun that somebody has called off, or another wish has taken the place of."""
        marks, since = MarkTopic(self.log, self.topics.marks), BatchSnapshot.of_value(batch.units).marks_since
        if self.flow.delivery.has_marks and marks.is_fenced(batch.flow, batch.stage, batch.generation, since):
            raise FlowHalted(
                f"a reset of {self.name} was begun and not carried out. Topics take nothing more of its batch "
                f"{batch.batch_id}, which was open then. Carry it out: towpath flow reset {self.flow.name}"
            )

    def close(self) -> None:
        """What is open is opened anew when it is needed again."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    @property
    def topic_ids(self) -> dict[str, str]:
        return {name: ids[-1] for name, ids in self.row.topics.items()}

    @property
    def incarnations(self) -> Mapping[str, int]:
        return {name: len(ids) - 1 for name, ids in self.row.topics.items()}

    def wish(self) -> StageCommand | None:
        """What people want of the stage, until it is done. While the database is away nobody knows: ask again."""
        try:
            with self.database.read() as tx:
                return self.stages.wish(tx, self.row.flow, self.row.name, self.owner)
        except DatabaseUnavailable:
            return None

    def reentry(self) -> Reentry:
        """How the stage takes what comes back. The first stage of a flow answers for what is for none."""
        stages = [stage.name for stage in self.flow.stages()]
        is_first = self.stage.name == stages[0]
        topic, topics = self.topics.reentry, dict(self.row.topics)
        return Reentry(topic, self.stage.name, frozenset(stages), is_first, topics, self.recalled())

    def recalled(self) -> frozenset[Sent]:
        """What the desk has called back: for all attempts of a batch that covers it the same."""
        with self.database.read() as tx:
            return CancelledReplays(self.database).of(tx, self.row.flow)

    def look(self) -> None:
        """Find the topics that are read, and the row as it is; `UnknownTopic` when one of the topics is not there.

        The row is written by this process alone, but it may not know whether its last writing has come to pass.
        """
        with self.database.read() as tx:
            self.row = self.stages.read(tx, self.row.flow, self.row.name)
        self.found = {name: self.log.topic(name) for name in self.input_topics}

    def kept(self, *, without_replaced: bool = False) -> dict[Spot, int]:
        """The first offset that each partition still has; raises when a topic is not the one that was begun with."""
        kept: dict[Spot, int] = {}
        for name, id in self.topic_ids.items():
            topic = self.log.topic(name)
            if topic.id != id:
                if without_replaced:
                    continue
                raise TopicReplaced(name, id, topic.id)
            kept |= {(id, number): start for number, start in self.log.starts(name).items()}
        return kept

    def last_batch(self) -> Batch | None:
        """The last batch of this generation that is committed."""
        with self.database.read() as tx:
            return self.ledger.last_committed(tx, self.row.flow, self.row.name, self.row.generation)

    def last_stops(self) -> dict[Spot, int]:
        """Where the stage has come to: the end of its last committed batch, or where its generation began."""
        last = self.last_batch()
        return last.positions.stops if last is not None else self.row.starting.stops

    def positions_of(self, batch_id: int) -> Positions:
        """What a batch reads: from the end of the one before it to where Spark's checkpoint says."""
        last, ids = self.last_batch(), self.topic_ids
        expected = 0 if last is None else last.batch_id + 1
        if batch_id != expected:
            raise self.estranged(f"Spark begins batch {batch_id} and the ledger expects batch {expected}")
        before = dict(self.row.starting.stops if last is None else last.positions.stops)
        ranges = []
        for (name, number), stop in self.checkpoint.stops(batch_id).items():
            start = before.pop((ids[name], number), 0)
            if stop < start:
                raise OffsetOutOfRange(name, number, start, 0, stop)
            ranges.append(OffsetRange(name, ids[name], number, start, stop))
        if before:
            id, number = next(iter(before))
            name = next(name for name, known in ids.items() if known == id)
            raise UnknownPartition(name, number, self.found[name].partitions)
        return Positions.of(ranges)

    def check_committed(self, batch: Batch) -> None:
        """Whether a batch that Spark begins is the one that the ledger has committed under this number."""
        ids = self.topic_ids
        stops = {
            (ids.get(name, name), number): stop
            for (name, number), stop in self.checkpoint.stops(batch.batch_id).items()
        }
        if stops != batch.positions.stops:
            raise self.estranged(f"batch {batch.batch_id} was committed with other positions")

    def check_checkpoint(self) -> None:
        """Whether the checkpoint is there that the ledger speaks of."""
        last = self.last_batch()
        if last is not None and last.batch_id > 0 and not self.checkpoint.has_commits:
            raise self.estranged("it has no committed batch, and the ledger has")

    def estranged(self, what: str) -> FlowHalted:
        return FlowHalted(
            f"the checkpoint {self.checkpoint.spark} and the ledger do not belong together: {what}. Put back the one "
            f"that was there, or begin anew: towpath flow reset {self.flow.name}"
        )
