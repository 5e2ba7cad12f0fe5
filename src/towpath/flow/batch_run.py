"""One batch of a stage, from its positions to its commit.

docs/explanation/flows.md tells the same in prose.

1. Snapshot: where the batch begins and ends, its hash, its row in the ledger; what was deleted before it could be read.
2. and 4. Decide and attempt, in one Spark job: every record is loaded, filtered or reported as failed. Where the job
   dies on single records, these are searched for and set aside, and the job is run again.
5. Errors: all that failed goes to the error topic. If it cannot be stored there, the batch does not commit.
6. Commit: the row in the ledger, then (when this returns) Spark's own commit log.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import FlowHalted
from towpath.events import Event, EventKind
from towpath.flow.classify import is_step_failure, is_worker_death
from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import batch_hash
from towpath.flow.error_box import ErrorBox
from towpath.flow.error_record import BatchName, error_records, gap_record
from towpath.flow.failure import Failure, bounded
from towpath.flow.ground import Ground
from towpath.flow.helm import Helm
from towpath.flow.judge import Judge
from towpath.flow.ledger_row import Batch, BatchState
from towpath.flow.nodes import Each, Step
from towpath.flow.outcome import Outcome, gather
from towpath.flow.pilot import PilotState
from towpath.flow.plan import Plan
from towpath.flow.positions import Range
from towpath.flow.probe import Outage, Probe
from towpath.flow.search import search
from towpath.flow.trial import Trial
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.breadcrumb import suspects

logger = logging.getLogger(__name__)

MAY_PASS_LATER = frozenset({ErrorCode.TRANSFORM_FAILED, ErrorCode.ITEM_REFUSED, ErrorCode.SINK_REFUSED})
EXPIRED = "deleted before it was read"


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
    excluded: dict[tuple[str, int], dict[int, Failure]] = field(default_factory=dict)
    took_s: float = 0.0
    _last_failure: Exception | None = None
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
        ground, batch = self.ground, self.batch
        if gaps:
            with ground.database.transaction() as tx:
                for gap in gaps:
                    if ground.ledger.add_gap(
                        tx, batch.flow, batch.stage, batch.generation, gap, EXPIRED, batch.batch_id
                    ):
                        ground.event_log.record(tx, gap_event(ground.name, gap, EXPIRED))

    # 2. and 4. Decide and attempt

    def _attempt(self) -> Outcome:
        deadline = time.monotonic() + self.ground.settings.flow.search_s
        while True:
            try:
                return self._job()
            except Exception as error:
                if not self._is_searched(error) or self._has_effects:
                    raise
                logger.warning("batch %d of %s fails as a whole: searching", self.batch_id, self.ground.name)
                self._search(error, deadline)

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

    @property
    def _has_effects(self) -> bool:
        """Whether to try records again would do something outside that cannot be taken back."""
        return any(isinstance(node, Each) and node.effects for node in self.ground.stage.nodes)

    def _place(self, directory: str) -> BatchPlace:
        ground, row = self.ground, self.ground.row
        return BatchPlace(
            row.flow,
            row.name,
            self.batch.hash,
            directory,
            self.nonce,
            ground.settings,
            ground.topic_ids,
            ground.incarnations,
        )

    def _search(self, error: Exception, deadline: float) -> None:
        """Set aside the records on which the job dies; `FlowHalted` when that would take too long."""
        suspected = self._suspected()
        found = [place for place in suspected if self._dies(place)]
        if not found:
            found = self._searched(error, deadline)
        for place in found:
            failure = self._failure(error, suspected.get(place, self._steps()))
            self.excluded.setdefault((place.topic, place.partition), {})[place.start] = failure

    def _searched(self, error: Exception, deadline: float) -> list[Range]:
        left = self.ground.settings.flow.search_records - sum(map(len, self.excluded.values()))
        result = search(list(self.batch.positions), self._dies, left, lambda: time.monotonic() > deadline)
        if not result.records and result.unsearched:
            raise FlowHalted(
                f"batch {self.batch_id} of {self.ground.name} fails as a whole, and flow.search_records or "
                f"flow.search_s is used up; not searched: {'; '.join(map(str, result.unsearched[:3]))}. {error}"
            )
        if not result.records:
            raise error
        return result.records

    def _suspected(self) -> dict[Range, str]:
        """The records that workers were at when they ended, with the step."""
        ids = self.ground.topic_ids
        return {
            Range(
                suspect.topic, ids[suspect.topic], suspect.partition, suspect.offset, suspect.offset + 1
            ): suspect.step
            for suspect in (suspects(self._reports) if self._reports else ())
            if suspect.topic in ids
        }

    def _steps(self) -> str:
        """Where a record fails that was found by searching: in one of these."""
        return ", ".join(node.name for node in self.ground.stage.nodes if isinstance(node, Step))

    def _dies(self, part: Range) -> bool:
        """Whether a part of the batch, tried without writing anything, ends the job."""
        try:
            Trial(self.ground, self._place(""), self.excluded).run(part)
        except Exception as error:
            if not self._is_searched(error):
                raise
            self._last_failure = error
            return True
        return False

    def _is_searched(self, error: Exception) -> bool:
        """Whether it may be the fault of single records."""
        return is_worker_death(error) or is_step_failure(error, self.nonce)

    def _failure(self, error: Exception, step: str) -> Failure:
        cause = self._last_failure or error
        what = "ends its Python worker" if is_worker_death(cause) else "makes a step fail"
        return Failure(ErrorCode.TRANSFORM_FAILED, step, type(cause).__name__, bounded(f"{what}: {cause}"))

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
        box = ErrorBox(ground.log, ground.topics.errors, ground.settings.log.max_record_bytes, ground.blobs)
        box.send(gap_record(gap, EXPIRED, name) for gap in gaps)
        box.send(error_records(outcome.failures, name, ground.topic_ids))
        crash.here(CrashPoint.ERRORS_SENT)

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


def gap_event(subject: str, gap: Range, why: str) -> Event:
    data = {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
    return Event(EventKind.FLOW_GAP_FOUND, subject, why=why, data=data)
