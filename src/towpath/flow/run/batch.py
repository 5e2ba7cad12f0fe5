"""One batch of a stage, from its positions to its commit: the steps of docs/explanation/delivery.md, by number.

What an earlier attempt has written down is found again and not done twice: a row, a decision, the marks of outputs, an
outcome. There is no other memory.

A gap is what a stage will never read: a row in the ledger, an event, and a record in the error topic. A batch writes
the row first and tells before it commits. A reset tells first: its row is what ends it, so that a process that dies
before it leaves a reset to be done again, which tells the same once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame

from towpath.blocks.service import BlockStore
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.flow.delivery.ids import DeliveryIds, InputCoordinates, batch_hash
from towpath.flow.delivery.ledger import Batch, BatchSnapshot, BatchState, HeldKeys
from towpath.flow.delivery.marks import Mark
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.records.errors import BatchName, DeliveredOutputs, error_records, gap_record, ordinals_of
from towpath.flow.records.reentry import INPUT_OFFSET, carried, delivered_to, first_reading, outcome_records, said_by
from towpath.flow.run.attempt import BatchAttempt
from towpath.flow.run.context import StageContext
from towpath.flow.run.notifier import Told
from towpath.flow.run.outage import OutageDetector
from towpath.flow.run.outcome import BatchOutcome
from towpath.flow.run.poison_search import SetAside
from towpath.flow.stage import StageState
from towpath.flow.stage.controller import StageController
from towpath.flow.stateful.column_state import is_column, later_of, tell_workers
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.reader import tell_blocks
from towpath.flow.worker.report import FailedRecord

EXPIRED = "deleted before it was read"
MADE_AGAIN = "the topic was deleted before the batch was done; outputs may have a part of it"
BY_HAND = "passed over by a reset"
TOLD = ""  # stands for an output in the mark of step 5: no output has this name


@dataclass(slots=True)
class BatchRun:
    """A batch at work."""

    context: StageContext
    controller: StageController
    detector: OutageDetector
    batch_id: int
    records: DataFrame
    nonce: str  # tells faults of this process's own workers from texts that look like one
    batch: Batch = field(init=False)
    units: BatchSnapshot = field(init=False)
    excluded: SetAside = field(default_factory=dict)
    is_ending: Callable[[], bool] = lambda: False  # whether the stage is to come to rest
    is_leftover: bool = False  # an input was made again: the batch is ended with what there is of it
    took_s: float = 0.0

    def run(self) -> BatchOutcome | None:
        """Do all of it; None when an earlier attempt had come as far as the commit."""
        began = time.monotonic()
        is_news = self._snapshot()
        attempt = self._attempt()
        if not is_news:
            attempt.run_for_state()  # 3.
            self.context.checkpoint.forget(self.batch.hash)
            return None
        if not attempt.has_read:
            self._note_gaps(self._early_gaps())
        outcome = attempt.outcome()
        self._note_gaps(self._late_gaps(outcome))
        self.controller.reach(StageState.ERRORS)
        self._tell(outcome)
        self.took_s = round(time.monotonic() - began, 3)
        self._commit(outcome)
        return outcome

    # 1. Snapshot

    def _snapshot(self) -> bool:
        """Whether there is something left to do."""
        context, row = self.context, self.context.row
        with context.database.read() as tx:
            known = context.ledger.read(tx, row.flow, row.name, row.generation, self.batch_id)
        if known is not None and known.state is BatchState.COMMITTED:
            context.check_committed(known)
            self._keep(known)
            return False
        if known is not None:
            context.check_marks(known)
            context.check_fence(known)
        positions = context.positions_of(self.batch_id)
        hash = batch_hash(row.flow, row.name, row.generation, self.batch_id, positions)
        units = self._new_units() if known is None else None
        crash.here(CrashPoint.BATCH_FIXED)
        with context.database.transaction() as tx:
            self._keep(
                context.ledger.snapshot(
                    tx, row.flow, row.name, row.generation, self.batch_id, hash, positions, units and units.to_value()
                )
            )
        crash.here(CrashPoint.BATCH_SNAPSHOT)
        self.controller.reach(StageState.TRANSFORM, self.batch_id)
        return True

    def _keep(self, batch: Batch) -> None:
        self.batch = batch
        self.units = BatchSnapshot.of_value(batch.units)
        if any(map(is_column, self.context.stage.sources)):
            tell_workers(self.context.spark, self.units.watermarks)
        if self.context.stage.is_stateful:
            tell_blocks(self.context.spark, self.units.blocks)

    def _new_units(self) -> BatchSnapshot:
        context = self.context
        if context.stage.is_stateful:  # the checkpoint has fixed it
            buckets = self.records._jdf.queryExecution().toRdd().getNumPartitions()
        else:
            buckets = int(context.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        return context.units(buckets)

    def _units_after(self, outcome: BatchOutcome) -> Any:
        """None: as they were fixed."""
        times = later_of(self.units.event_times, outcome.event_times)
        return replace(self.units, event_times=times).to_value() if times else None

    # What was deleted before this batch could read it: a row before the batch runs, or as soon as it is noticed

    def _early_gaps(self) -> list[OffsetRange]:
        return self.batch.positions.lost(self.context.kept(without_replaced=self.is_leftover))

    def _late_gaps(self, outcome: BatchOutcome) -> list[OffsetRange]:
        """What was deleted after that look and before it was read: Spark passes over it without a word."""
        if not (lost := self._early_gaps()):
            return []
        noted = {gap.spot: gap.stop for gap, _ in sorted(self._gaps())}
        gaps = []
        for each in lost:
            start = noted.get(each.spot, each.start)
            stop = min(each.stop, outcome.lowest.get(f"{each.topic}/{each.partition}", each.stop))
            if start < stop:
                gaps.append(each._replace(start=start, stop=stop))
        return gaps

    def _gaps(self) -> list[tuple[OffsetRange, str]]:
        """Those of this batch with their reasons, as they were noted, by whichever attempt."""
        context, row = self.context, self.context.row
        with context.database.read() as tx:
            noted = context.ledger.gaps(tx, row.flow, row.name)
        mine = (row.generation, self.batch_id)
        return [
            (OffsetRange(gap.topic, gap.topic_id, gap.partition, gap.start, gap.stop), gap.reason)
            for gap in noted
            if (gap.generation, gap.batch_id) == mine
        ]

    def _note_gaps(self, gaps: list[OffsetRange]) -> None:
        if gaps:
            with self.context.database.transaction() as tx:
                why = MADE_AGAIN if self.is_leftover else EXPIRED
                note_gaps(tx, self.context, gaps, why, batch_id=self.batch_id)

    # 2. to 4. Decide and attempt

    def _attempt(self) -> BatchAttempt:
        return BatchAttempt(
            self.context,
            self.controller,
            self.detector,
            self.batch,
            self.units.buckets,
            self.records,
            self._place(),
            self.excluded,
            self.is_ending,
        )

    def _place(self) -> BatchContext:
        context, row = self.context, self.context.row
        place = BatchContext(
            row.flow,
            row.name,
            self.batch.hash,
            "",
            self.nonce,
            context.settings,
            context.topic_ids,
            context.incarnations,
            generation=row.generation,
            batch_id=self.batch_id,
            strategy=context.flow.delivery,
            launch=row.launch,
            marks_since=self.units.marks_since,
            outages=context.checkpoint.outages(self.batch.hash),
            crash=crash.armed(),
            blocks=self.units.blocks,
        )
        if not self._returned:  # something comes back seldom, and only then a record costs more to read
            return place
        back = context.reentry()
        ids = {**place.topic_ids, **back.old_ids}
        return replace(place, topic_ids=ids, incarnations={**place.incarnations, **back.old_incarnations}, reentry=back)

    @property
    def _returned(self) -> list[OffsetRange]:
        """What the batch reads of what came back."""
        back = self.context.topics.reentry
        return [each for each in self.batch.positions if each.topic == back and not each.is_empty]

    # 5. Errors and outcomes

    def _tell(self, outcome: BatchOutcome) -> None:
        told = self._told(outcome)
        if (first := next(told, None)) is not None:
            mark = Mark(*self.batch.key, TOLD, "")
            self.context.sender().send(mark, self.units.marks_since, chain([first], told))
        crash.here(CrashPoint.ERRORS_SENT)

    def _told(self, outcome: BatchOutcome) -> Iterator[Told]:
        """What failed and what was never read, for the error topic; what became of what had come back."""
        context, topics, name = self.context, self.context.topics, self._name()
        for record in (gap_record(gap, why, name) for gap, why in self._gaps()):
            yield topics.errors, record
        for record in error_records(
            outcome.failures, name, context.topic_ids, self._carried, self._delivered, order=context.flow.order
        ):
            yield topics.errors, record
        back = self._returned
        records = (
            record for each in back for record in context.log.read(each.topic, each.partition, each.start, each.stop)
        )
        for record in outcome_records(records, outcome, name, context.recalled()) if back else ():
            yield topics.outcomes, record

    def _carried(self, one: FailedRecord) -> Mapping[str, str]:
        """What came back and fails again is known again by what it came back with. Nobody else is believed."""
        return carried(one.headers) if self._is_back(one) else {}

    def _delivered(self, one: FailedRecord) -> DeliveredOutputs:
        """What outputs have of a record which another one, or they themselves, have refused."""
        before = self._delivered_before(one) if self._is_back(one) else DeliveredOutputs()
        if one.output is None:
            return before
        outputs = {output.name: output.sink for output in self.context.stage.outputs}
        refused_by = {one.output, *one.also_refused}
        is_early = any(outputs[name].may_refuse for name in refused_by)  # then those that cannot refuse got nothing
        done = {name for name in one.outputs if outputs[name].may_refuse or not is_early}
        return before.joined(DeliveredOutputs(frozenset(done - refused_by), self._partly(one)))

    def _partly(self, one: FailedRecord) -> dict[str, frozenset[int]]:
        if not one.partly:
            return {}
        row, input = self.context.row, InputCoordinates(self.context.topic_ids[one.topic], one.partition, one.offset)
        said = said_by(one.headers)
        if self._is_back(one) and INPUT_OFFSET in said:  # a tick lies there too, and is read for the first time
            input = InputCoordinates(*first_reading(said)[2:5])
        return {
            name: ordinals_of(ids, DeliveryIds(row.flow, row.name, name), input) for name, ids in one.partly.items()
        }

    @staticmethod
    def _delivered_before(one: FailedRecord) -> DeliveredOutputs:
        try:
            return delivered_to(said_by(one.headers))
        except ValueError:
            return DeliveredOutputs()  # it has failed for that very reason

    def _is_back(self, one: FailedRecord) -> bool:
        return one.topic == self.context.topics.reentry

    def _name(self) -> BatchName:
        row = self.context.row
        return BatchName(
            row.flow, row.name, row.version, row.generation, self.batch_id, self.batch.hash, self.context.owner
        )

    # 6. Commit

    def _commit(self, outcome: BatchOutcome) -> None:
        context, row = self.context, self.context.row
        timings = {"total_s": self.took_s}
        with context.database.transaction() as tx:
            context.ledger.commit(
                tx,
                row.flow,
                row.name,
                row.generation,
                self.batch_id,
                counts=outcome.to_counts(),
                digests=outcome.digests,
                timings=timings,
                units=self._units_after(outcome),
            )
            context.dues.save(tx, row, outcome.due)
            if outcome.caught:
                BlockStore(context.database).note_caught(tx, outcome.caught)
            if context.flow.order is not None:
                keys = [one.key for one in outcome.failures if one.key is not None and not self._is_back(one)]
                HeldKeys(context.database).send(tx, row.flow, row.name, keys)
            context.stages.save_judge(tx, row.flow, row.name, context.owner, self.detector.to_value())
        crash.here(CrashPoint.BATCH_COMMITTED)
        context.checkpoint.forget(self.batch.hash)


def note_gaps(
    tx: Transaction, context: StageContext, gaps: Sequence[OffsetRange], why: str, batch_id: int | None = None
) -> None:
    """Write down what the present generation will never read."""
    row = context.row
    for gap in gaps:
        if context.ledger.add_gap(tx, row.flow, row.name, row.generation, gap, why, batch_id):
            data = {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
            context.event_log.record(tx, Event(EventKind.FLOW_GAP_FOUND, context.name, why=why, data=data))


def tell_gaps(context: StageContext, gaps: Sequence[OffsetRange], why: str) -> None:
    """Put what a reset passes over into the error topic. It belongs to no batch."""
    row = context.row
    name = BatchName(row.flow, row.name, row.version, row.generation, None, "", context.owner)
    context.error_box.send(gap_record(gap, why, name) for gap in gaps)
