"""One batch of a stage, from its positions to its commit.

docs/explanation/flows.md tells the same in prose.

1. Snapshot: where the batch begins and ends, its hash, its row in the ledger; what was deleted before it could be read.
2. and 4. Decide and attempt, in one Spark job: every record is loaded, filtered or reported as failed. Where the job
   dies on single records, these are searched for and set aside, and the job is run again.
5. Errors: all that failed goes to the error topic; then, of what came back from the desk, what became of it. If that
   cannot be stored, the batch does not commit.
6. Commit: the row in the ledger, then (when this returns) Spark's own commit log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import FlowHalted
from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import batch_hash
from towpath.flow.error_record import BatchName, error_records
from towpath.flow.gaps import note_gaps, tell_gaps
from towpath.flow.ground import Ground
from towpath.flow.helm import Helm
from towpath.flow.judge import Judge
from towpath.flow.ledger_row import Batch, BatchState
from towpath.flow.outcome import Outcome, gather
from towpath.flow.outcome_record import outcome_records
from towpath.flow.pilot import PilotState
from towpath.flow.plan import Plan
from towpath.flow.positions import Range
from towpath.flow.probe import Outage, Probe
from towpath.flow.reentry_record import carried
from towpath.flow.searching import Searching, SetAside
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.report import Failed

MAY_PASS_LATER = frozenset({ErrorCode.TRANSFORM_FAILED, ErrorCode.ITEM_REFUSED, ErrorCode.SINK_REFUSED})


@dataclass(slots=True)
class BatchRun:
    """A batch at work."""

    ground: Ground
    helm: Helm
    judge: Judge
    batch_id: int
    records: DataFrame
    nonce: str  # tells faults of this process's own workers from texts that look like one
    batch: Batch = field(init=False)
    excluded: SetAside = field(default_factory=dict)
    is_ending: Callable[[], bool] = lambda: False  # whether the stage is to come to rest
    took_s: float = 0.0
    _reports: Path | None = None  # of the last attempt

    def run(self) -> Outcome | None:
        """Do all of it; None when an earlier attempt had come as far as the commit."""
        began = time.monotonic()
        gaps = self._snapshot()
        if gaps is None:
            return None
        outcome = self._attempt()
        gaps += self._late_gaps(outcome, gaps)
        if self.helm.state is not PilotState.ERRORS:  # else an earlier attempt has judged it, and told some of it
            self._judge(outcome)
        self.helm.reach(PilotState.ERRORS)
        self._send_errors(outcome, gaps)
        if self._has_reentry:
            self._send_outcomes(outcome)
        self.took_s = round(time.monotonic() - began, 3)
        self._commit(outcome)
        return outcome

    # 1. Snapshot

    def _snapshot(self) -> list[Range] | None:
        ground, row = self.ground, self.ground.row
        with ground.database.read() as tx:
            known = ground.ledger.read(tx, row.flow, row.name, row.generation, self.batch_id)
        if known is not None and known.state is BatchState.COMMITTED:
            ground.check_committed(known)
            return None
        positions = ground.positions_of(self.batch_id)
        hash = batch_hash(row.flow, row.name, row.generation, self.batch_id, positions)
        crash.here(CrashPoint.BATCH_FIXED)
        with ground.database.transaction() as tx:
            self.batch = ground.ledger.snapshot(tx, row.flow, row.name, row.generation, self.batch_id, hash, positions)
        crash.here(CrashPoint.BATCH_SNAPSHOT)
        self.helm.reach(PilotState.TRANSFORM, self.batch_id)
        return self._gaps()

    def _gaps(self) -> list[Range]:
        """What was deleted before this batch could read it; written down before the batch runs."""
        gaps = self.batch.positions.lost(self.ground.kept())
        self._note_gaps(gaps)
        return gaps

    def _late_gaps(self, outcome: Outcome, known: list[Range]) -> list[Range]:
        """What was deleted after that look and before it was read: Spark passes over it without a word."""
        kept = self.ground.kept()
        noted = {gap.spot: gap.stop for gap in known}
        gaps = []
        for each in self.batch.positions.lost(kept):
            start = noted.get(each.spot, each.start)
            stop = min(each.stop, outcome.lowest.get(f"{each.topic}/{each.partition}", each.stop))
            if start < stop:
                gaps.append(each._replace(start=start, stop=stop))
        self._note_gaps(gaps)
        return gaps

    def _note_gaps(self, gaps: list[Range]) -> None:
        if gaps:
            with self.ground.database.transaction() as tx:
                note_gaps(tx, self.ground, gaps, batch_id=self.batch_id)

    # 2. and 4. Decide and attempt

    def _attempt(self) -> Outcome:
        is_wide = self.helm.pilot.needs_search
        searching = Searching(self.ground, self.batch, self._place(""), self.excluded, self.is_ending, is_wide=is_wide)
        while True:
            try:
                return self._job()
            except Exception as error:
                if not searching.may_find(error):
                    raise
                searching.run(error, self._reports)

    def _job(self) -> Outcome:
        """One job for the whole batch. Where the steps let Spark pass over records, all of them are read first."""
        units = self.records._jdf.queryExecution().toRdd().getNumPartitions()
        outcome = self._run(reads_first=False)
        if outcome.units != units:
            outcome = self._run(reads_first=True)
        if outcome.units != units or not outcome.is_balanced:
            raise FlowHalted(
                f"batch {self.batch_id} of {self.ground.name} does not add up: {outcome.units} of {units} tasks have "
                f"read {outcome.read} records, and {outcome.to_counts()} came out. A step does something to rows that "
                "Towpath cannot follow; simplify it"
            )
        return outcome

    def _run(self, *, reads_first: bool) -> Outcome:
        ground = self.ground
        self._reports = ground.checkpoint.begin_reports(self.batch.hash)
        plan = Plan(
            ground.stage,
            self._place(str(self._reports)),
            self.excluded,
            ground.max_record_bytes,
            reads_first=reads_first,
        )
        self.helm.reach(PilotState.LOAD)
        plan.run(self.records)
        crash.here(CrashPoint.BATCH_LOADED)
        return gather(self._reports, plan.chain)

    def _place(self, directory: str) -> BatchPlace:
        ground, row = self.ground, self.ground.row
        place = BatchPlace(
            row.flow,
            row.name,
            self.batch.hash,
            directory,
            self.nonce,
            ground.settings,
            ground.topic_ids,
            ground.incarnations,
        )
        return self._with_reentry(place) if self._has_reentry else place

    @property
    def _has_reentry(self) -> bool:
        """Whether something has come back: seldom, and only then a record costs more to read."""
        back = self.ground.topics.reentry
        return any(each.topic == back and not each.is_empty for each in self.batch.positions)

    def _with_reentry(self, place: BatchPlace) -> BatchPlace:
        back = self.ground.reentry()
        ids = {**place.topic_ids, **back.old_ids}
        return replace(place, topic_ids=ids, incarnations={**place.incarnations, **back.old_incarnations}, reentry=back)

    # Between decision and errors

    def _judge(self, outcome: Outcome) -> None:
        """Raise `Outage` when what failed is no fault of the records; nothing of the decision counts then.

        Only steps and sinks can fail today and pass tomorrow: what is no JSON will never be any.
        """
        now = self.ground.database.now()
        causes = outcome.causes_by_step(MAY_PASS_LATER)
        for where in (*self.ground.stage.callers, *(output.name for output in self.ground.stage.outputs)):
            failures = causes.get(where, {})
            self.judge.saw(where, outcome.read - sum(failures.values()), failures, now)
            if (verdict := self.judge.verdict(where, now)) is not None:
                example = next(
                    (one for one in outcome.failures if one.failure.fingerprint == verdict.fingerprint), None
                )
                raise Outage(where, verdict, example and Probe(self.ground, self._place(""), example))

    # 5. Errors

    def _send_errors(self, outcome: Outcome, gaps: list[Range]) -> None:
        ground, name = self.ground, self._name()
        tell_gaps(ground, gaps, batch=name)
        ground.error_box.send(error_records(outcome.failures, name, ground.topic_ids, self._carried))
        crash.here(CrashPoint.ERRORS_SENT)

    def _send_outcomes(self, outcome: Outcome) -> None:
        log, back = self.ground.log, [each for each in self.batch.positions if each.topic == self.ground.topics.reentry]
        records = (record for each in back for record in log.read(each.topic, each.partition, each.start, each.stop))
        if told := list(outcome_records(records, outcome, self._name())):
            log.append(self.ground.topics.outcomes, told)

    def _carried(self, one: Failed) -> Mapping[str, str]:
        """What came back and fails again is known again by what it came back with. Nobody else is believed."""
        return carried(one.headers) if one.topic == self.ground.topics.reentry else {}

    def _name(self) -> BatchName:
        row = self.ground.row
        return BatchName(
            row.flow, row.name, row.version, row.generation, self.batch_id, self.batch.hash, self.ground.owner
        )

    # 6. Commit

    def _commit(self, outcome: Outcome) -> None:
        ground, row = self.ground, self.ground.row
        timings = {"total_s": self.took_s}
        with ground.database.transaction() as tx:
            ground.ledger.commit(
                tx,
                row.flow,
                row.name,
                row.generation,
                self.batch_id,
                counts=outcome.to_counts(),
                digests=outcome.digests,
                timings=timings,
            )
            ground.stages.save_judge(tx, row.flow, row.name, ground.owner, self.judge.to_value())
        crash.here(CrashPoint.BATCH_COMMITTED)
        ground.checkpoint.forget_reports(self.batch.hash)
