"""A flow that has run, in real stores: made by hand, batch by batch, without Spark."""

from __future__ import annotations

from typing import Any

from tests.support.quiet import Quiet

from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import Batch, Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import BatchName, error_records, gap_record
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.flow.worker.report import FailedRecord
from towpath.log import Log, NewRecord, Record

FLOW, STAGE, TOPIC, ME = "page-views", "clicks", "clicks", "me"
COUNTS = ("loaded", "filtered", "failed")


class Audited:
    """What a record's value says becomes of it: `loaded`, `filtered` or `failed`."""

    def __init__(self, quiet: Quiet, log: Log, flow: str = FLOW, topic: str = TOPIC) -> None:
        self.flow, self.name = flow, topic
        self.database = quiet.database
        self.log = log
        self.stages = StageStore(self.database)
        self.ledger = Ledger(self.database, ME)
        self.topics = FlowTopics.of(flow)
        self.topic = log.create_topic(self.name, 2)
        self.topics.ensure(log, 1)
        with self.database.transaction() as tx:
            self.stages.ensure(tx, self.flow, STAGE, {})
            taken = self.stages.take(tx, self.flow, STAGE, ME)
            self.stages.save_machine(tx, self.flow, STAGE, ME, taken.machine.started(1))
        self.begin(self.stage, {0: 0, 1: 0})

    @property
    def stage(self) -> Any:
        with self.database.read() as tx:
            return self.stages.read(tx, self.flow, STAGE)

    def begin(self, before: Any, starts: dict[int, int]) -> None:
        """A new generation."""
        reentry = self.log.topic(self.topics.reentry)
        ranges = [OffsetRange(self.name, self.topic.id, number, at, at) for number, at in starts.items()]
        ranges.append(OffsetRange(reentry.name, reentry.id, 0, 0, 0))
        topics = {self.name: [self.topic.id], reentry.name: [reentry.id]}
        with self.database.transaction() as tx:
            self.ledger.supersede_open(tx, self.flow, STAGE)
            self.stages.new_generation(tx, before, ME, checkpoint="/c", starting=Positions.of(ranges), topics=topics)
        self.at = dict(starts)
        self.next_batch = 0

    def send(self, *fates: str, partition: int = 0) -> None:
        records = [NewRecord(fate.encode(), f"k{at}".encode(), partition=partition) for at, fate in enumerate(fates)]
        self.log.append(self.name, records)

    def snapshot(self) -> Batch:
        """Fix what the next batch reads: all that is there."""
        generation = self.stage.generation
        reentry = self.log.topic(self.topics.reentry)
        ends = self.log.ends(self.name)
        ranges = [OffsetRange(self.name, self.topic.id, number, self.at[number], end) for number, end in ends.items()]
        ranges.append(OffsetRange(reentry.name, reentry.id, 0, 0, 0))
        positions = Positions.of(ranges)
        hash = batch_hash(self.flow, STAGE, generation, self.next_batch, positions)
        with self.database.transaction() as tx:
            return self.ledger.snapshot(tx, self.flow, STAGE, generation, self.next_batch, hash, positions)

    def send_errors(self, batch: Batch) -> None:
        failure = RecordFailure(ErrorCode.TRANSFORM_FAILED, "label", "KeyError", "'zz'")
        failed = [
            FailedRecord(
                each.topic,
                each.partition,
                each.offset,
                each.timestamp_ms,
                each.key,
                each.value,
                (),
                failure,
                None,
                None,
            )
            for each in self._records(batch)
            if each.value == b"failed"
        ]
        self.log.append(self.topics.errors, list(error_records(failed, self._name(batch), {self.name: self.topic.id})))

    def add_gap(self, batch: Batch, gap: OffsetRange) -> None:
        with self.database.transaction() as tx:
            self.ledger.add_gap(tx, self.flow, STAGE, batch.generation, gap, "expired", batch.batch_id)
        self.log.append(self.topics.errors, [gap_record(gap, "expired", self._name(batch))])

    def commit(self, batch: Batch) -> None:
        values = [(each.value or b"").decode() for each in self._records(batch)]
        loaded, filtered, failed = (values.count(fate) for fate in COUNTS)
        counts: dict[str, Any] = {
            "read": len(values),
            "loaded": loaded,
            "filtered": {"views": filtered},
            "failed": {"9": failed},
            "delivered": {"out": loaded},
        }
        key = (batch.flow, batch.stage, batch.generation, batch.batch_id)
        with self.database.transaction() as tx:
            self.ledger.commit(tx, *key, counts=counts, digests={"out": {"0": "00" * 32}})
        self.at = {each.partition: each.stop for each in batch.positions if each.topic == self.name}
        self.next_batch += 1

    def run(self, *fates: str, partition: int = 0) -> Batch:
        """Send and read them, from the snapshot to the commit."""
        self.send(*fates, partition=partition)
        batch = self.snapshot()
        self.send_errors(batch)
        self.commit(batch)
        return batch

    def _records(self, batch: Batch) -> list[Record]:
        starts = self.log.starts(self.name)
        return [
            record
            for each in batch.positions
            if each.topic == self.name and each.start < each.stop
            for record in self.log.read(self.name, each.partition, max(each.start, starts[each.partition]), each.stop)
        ]

    def _name(self, batch: Batch) -> BatchName:
        return BatchName(self.flow, STAGE, "", batch.generation, batch.batch_id, batch.hash, ME)
