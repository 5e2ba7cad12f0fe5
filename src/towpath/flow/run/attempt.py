"""One attempt at the work of a batch: steps 2 to 4 of docs/explanation/delivery.md.

What earlier attempts have completed is beside the checkpoint, under the hash of the batch: a decision, an outcome. Each
became visible by one rename, and is not made again.

With `Flow(order="key")` the records of a key stay in order (`KeyOrder`): behind one that has failed, none of its key is
tried. What is not tried is set aside before the batch is decided, as records are that end their worker, and fails as
`KeyHeld`. Which records that are is found by two looks at the batch: for keys that earlier batches have left on the
desk, and, when the decision is made, for keys of which a record has failed in this batch, for all that stand behind it.
What came back from the desk is never held: it is what the others wait for.

A record that only a sink refuses is not seen by then: what stands behind it in the same batch has gone to the sinks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import FlowHalted
from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.ledger import DIGITS, Batch, BatchState, HeldKeys, hash_of
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.plan.frames import nothing
from towpath.flow.plan.plan import Plan, load_decided
from towpath.flow.run.context import StageContext
from towpath.flow.run.outage import Outage, OutageDetector, Probe
from towpath.flow.run.outcome import BatchOutcome, gather
from towpath.flow.run.poison_search import PoisonSearch, SetAside
from towpath.flow.stage import StageState
from towpath.flow.stage.classifier import is_worker_death
from towpath.flow.stage.controller import StageController
from towpath.flow.stateful.operators import count_records
from towpath.flow.worker.breadcrumb import last_seen
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.decision import units_of
from towpath.flow.worker.loader import NAME
from towpath.flow.worker.report import FailedRecord, SegmentCounts

MAY_PASS_LATER = frozenset({ErrorCode.TRANSFORM_FAILED, ErrorCode.ITEM_REFUSED, ErrorCode.SINK_REFUSED})
CHAIN = "chain"  # the name of a file: which segments there were, and the step before each
STEP = "order"
KEY_HELD = "KeyHeld"
HELD = RecordFailure(
    ErrorCode.NOT_VALID, STEP, KEY_HELD, "an earlier record of its key has failed; it waits for that one"
)
Place = tuple[str, int, int]  # topic, partition and offset
_HASH = "key_hash"


@dataclass(slots=True)
class BatchAttempt:
    """Ends with an outcome, or with an exception after which the batch is tried again."""

    context: StageContext
    controller: StageController
    detector: OutageDetector
    batch: Batch
    buckets: int
    records: DataFrame
    place: BatchContext
    excluded: SetAside
    is_ending: Callable[[], bool]
    _directory: Path = field(init=False)

    def outcome(self) -> BatchOutcome:
        """What the outputs have of the batch: all that they are to have."""
        if self.batch.state is BatchState.AHEAD:
            return self._forfeited()
        checkpoint, hash = self.context.checkpoint, self.batch.hash
        decision = checkpoint.decision(hash)
        stored = checkpoint.outcome(hash)
        if stored is None:
            if decision is None and self.context.decides:
                decision = self._decide()
            elif decision is not None:
                self.run_for_state()
            stored = self._load(decision)
        else:
            self.run_for_state()
        self.controller.reach(StageState.LOAD)
        return _gathered(decision, stored)

    @property
    def has_read(self) -> bool:
        """Whether an earlier attempt has read all that there was, and what it found is kept."""
        checkpoint, hash = self.context.checkpoint, self.batch.hash
        return checkpoint.decision(hash) is not None or checkpoint.outcome(hash) is not None

    def run_for_state(self) -> None:
        """Where nothing is done any more but the stage keeps state: Spark must commit that, or no batch follows."""
        if self.context.stage.is_stateful:
            self.records.foreachPartition(nothing)

    # 2. Decide, once

    def _decide(self) -> Path:
        if self.batch.state is BatchState.DECIDED:
            raise FlowHalted(
                f"batch {self.batch.batch_id} of {self.context.name} was decided, and the files of that are gone from "
                f"{self.context.checkpoint.directory}. Outputs may have a part of it; put the files back, or begin "
                f"anew: towpath flow reset {self.context.flow.name}"
            )
        outcome = self._decided()
        self._judge(outcome, self.context.stage.callers)
        crash.here(CrashPoint.DECISION_MADE)
        decision = self.context.checkpoint.keep_decision(self.batch.hash, self._directory)
        crash.here(CrashPoint.DECISION_STORED)
        with self.context.database.transaction() as tx:
            self.context.ledger.decide(tx, *self.batch.key, counts=outcome.to_counts())
        crash.here(CrashPoint.BATCH_DECIDED)
        return decision

    def _decided(self) -> BatchOutcome:
        """Run the steps; again without those records that must not come before one of their key that has failed."""
        if self.context.flow.order is None:
            return self._run_with_search(lambda: self._job(decides=True))
        order = KeyOrder(self.records, self.context.topics.reentry)
        with self.context.database.transaction() as tx:
            keys = HeldKeys(self.context.database).free(tx, self.batch.flow, self.batch.stage)
        self._set_aside(order.held(keys))
        while True:
            outcome = self._run_with_search(lambda: self._job(decides=True))
            behind = order.behind(outcome.failures, self.excluded)
            if not behind:
                return outcome
            self._set_aside(behind)

    def _set_aside(self, found: SetAside) -> None:
        for spot, failures in found.items():
            self.excluded[spot] = {**failures, **self.excluded.get(spot, {})}
        if found:
            self.context.checkpoint.keep_excluded(self.batch.hash, self.excluded)

    # 4. Attempt

    def _load(self, decision: Path | None) -> Path:
        if self.context.flow.delivery is Strategy.AT_MOST_ONCE:
            self._go_ahead()
        self.controller.reach(StageState.LOAD)
        if decision is None:
            outcome = self._run_with_search(lambda: self._job(decides=False))
        else:
            outcome = self._load_decided(decision)
        if self._may_load_again:
            self._judge(outcome, (*(() if decision else self.context.stage.callers), *self._refusing))
        crash.here(CrashPoint.BATCH_LOADED)
        stored = self.context.checkpoint.keep_outcome(self.batch.hash, self._directory)
        crash.here(CrashPoint.OUTCOME_STORED)
        return stored

    @property
    def _may_load_again(self) -> bool:
        """Whether more may come out of the batch at another time. A topic that has its mark would not get that."""
        match self.context.flow.delivery:
            case Strategy.AT_LEAST_ONCE:
                return True
            case Strategy.AT_MOST_ONCE:
                return False
        return all(output.sink.is_idempotent for output in self.context.stage.outputs)

    def _go_ahead(self) -> None:
        """From here on an attempt that fails is given up, so what can be known before is asked before."""
        for output in self.context.stage.outputs:
            output.sink.check(self.context.settings)
        with self.context.database.transaction() as tx:
            self.batch = self.context.ledger.go_ahead(tx, *self.batch.key)
        crash.here(CrashPoint.WENT_AHEAD)

    def _load_decided(self, decision: Path) -> BatchOutcome:
        self._directory = self.context.checkpoint.begin_attempt(self.batch.hash)
        place = replace(self.place, directory=str(self._directory))
        try:
            load_decided(self.context.spark, self.context.stage, place, decision)
        except Exception:
            crash.check()
            raise
        units, loaded = len(units_of(decision)), len(list(self._directory.glob(f"{NAME}-*.json")))
        if units != loaded:
            raise FlowHalted(
                f"batch {self.batch.batch_id} of {self.context.name}: {loaded} of {units} units were loaded"
            )
        return _gathered(decision, self._directory)

    def _forfeited(self) -> BatchOutcome:
        """At most once, and an attempt was begun: whatever it may not have written is given up."""
        stored = self.context.checkpoint.outcome(self.batch.hash)
        if stored is not None:
            self.run_for_state()
            return _gathered(None, stored).without_failures()
        is_stateful = self.context.stage.is_stateful
        return BatchOutcome.all_forfeited(
            count_records(self.records) if is_stateful else SegmentCounts(read=self.records.count())
        )

    @property
    def _refusing(self) -> tuple[str, ...]:
        """The outputs that may be of another mind later. What a topic or a file system cannot hold, it never can."""
        return tuple(output.name for output in self.context.stage.outputs if output.sink.may_refuse)

    # Jobs of Spark

    def _run_with_search(self, job: Callable[[], BatchOutcome]) -> BatchOutcome:
        """Where the job dies on single records, these are searched for and set aside, and it is run again."""
        self.excluded |= self.context.checkpoint.excluded(self.batch.hash)
        is_wide = self.controller.machine.needs_search
        search = PoisonSearch(self.context, self.batch, self.place, self.excluded, self.is_ending, is_wide=is_wide)
        self._directory = self.context.checkpoint.begin_attempt(self.batch.hash)
        while True:
            try:
                return job()
            except Exception as error:
                crash.check()
                if self.batch.state is BatchState.AHEAD or not search.may_find(error):
                    raise
                self._search(search, error)
                self.context.checkpoint.keep_excluded(self.batch.hash, self.excluded)

    def _search(self, search: PoisonSearch, error: Exception) -> None:
        """Functions with state are not in the search: their state is of the batch before, and nobody could undo it."""
        try:
            search.run(error, self._directory)
        except FlowHalted:
            raise
        except Exception:
            stage, flow = self.context.stage, self.context.flow.name
            named = [repr(source.name) for source in stage.sources if source.is_stateful]
            if not named or not self.controller.machine.needs_search or not is_worker_death(error):
                raise
            seen = last_seen(self.context.checkpoint.directory)
            raise FlowHalted(
                f"batch {self.batch.batch_id} of {self.context.name} ends its Python workers again and again, in "
                f"{', '.join(named)}, which keeps state{f': at {seen}' if seen else ''}. Mend the function, or give "
                f"workers more memory, and go on: towpath flow resume {flow} {stage.name}. {error}"
            ) from error

    def _job(self, *, decides: bool) -> BatchOutcome:
        """One job for the whole batch. Where the steps let Spark pass over records, all of them are read first."""
        tasks: int = self.records._jdf.queryExecution().toRdd().getNumPartitions()
        outcome = self._run(decides=decides, reads_first=False)
        is_repeatable = self.place.strategy is not Strategy.AT_MOST_ONCE or not outcome.delivered.total()
        if outcome.units != tasks and not self.context.stage.is_stateful and is_repeatable:
            outcome = self._run(decides=decides, reads_first=True)
        if (outcome.units != tasks and not self.context.stage.is_stateful) or not outcome.is_balanced:
            raise FlowHalted(
                f"batch {self.batch.batch_id} of {self.context.name} does not add up: {outcome.units} of {tasks} tasks "
                f"have read {outcome.read} records, and {outcome.to_counts()} came out. A step does something to rows "
                "that Towpath cannot follow; simplify it"
            )
        return outcome

    def _run(self, *, decides: bool, reads_first: bool) -> BatchOutcome:
        context = self.context
        self._directory = context.checkpoint.begin_attempt(self.batch.hash)
        plan = Plan(
            context.stage,
            replace(self.place, directory=str(self._directory)),
            self.excluded,
            context.max_record_bytes,
            buckets=self.buckets,
            decides=decides,
            reads_first=reads_first,
        )
        plan.run(self.records)
        (self._directory / CHAIN).write_text(json.dumps(plan.chain), encoding="utf-8")
        return _gathered(None, self._directory)

    # Between deciding and telling

    def _judge(self, outcome: BatchOutcome, places: Iterable[str]) -> None:
        """Raise `Outage` when what failed is no fault of the records; what was refused does not count then.

        Only steps and sinks can fail today and pass tomorrow: what is no JSON will never be any.
        """
        now = self.context.database.now()
        causes = outcome.causes_by_step(MAY_PASS_LATER)
        for where in places:
            failures = causes.get(where, {})
            self.detector.saw(where, outcome.read - sum(failures.values()), failures, now)
            if (verdict := self.detector.verdict(where, now)) is not None:
                example = next(
                    (one for one in outcome.failures if one.failure.fingerprint == verdict.fingerprint), None
                )
                self.context.checkpoint.note_outage(self.batch.hash)
                raise Outage(where, verdict, example and Probe(self.context, self.place, example))


def _gathered(decision: Path | None, reports: Path) -> BatchOutcome:
    directories = [each for each in (decision, reports) if each is not None]
    chain = json.loads((directories[0] / CHAIN).read_text(encoding="utf-8"))
    return gather(directories, [tuple(each) for each in chain])


class KeyOrder:
    """Finds the records of one batch that have to wait for an earlier one of their key."""

    def __init__(self, records: DataFrame, reentry: str) -> None:
        self._records = records
        self._reentry = reentry

    def held(self, keys: Collection[str]) -> SetAside:
        """The records of keys that are held."""
        return _set_aside((row.topic, row.partition, row.offset) for row in self._of(keys))

    def behind(self, failures: Iterable[FailedRecord], known: SetAside) -> SetAside:
        """The records that stand behind one of their key that has failed, without those that are set aside already."""
        first: dict[str, Place] = {}
        for one in failures:
            if one.key is not None and one.topic != self._reentry and one.failure.exception != KEY_HELD:
                at = (one.topic, one.partition, one.offset)
                key = hash_of(one.key)
                first[key] = min(first.get(key, at), at)
        found = ((row[_HASH], (row.topic, row.partition, row.offset)) for row in self._of(first))
        return _set_aside(at for key, at in found if _is_behind(at, first[key]) and at[2] not in known.get(at[:2], {}))

    def _of(self, keys: Collection[str]) -> list[Row]:
        """Where the records of some keys are, without what came back."""
        if not keys:
            return []
        wanted = self._records.sparkSession.createDataFrame([(key,) for key in sorted(keys)], f"{_HASH} string")
        read = self._records.where((F.col("topic") != self._reentry) & F.col("key").isNotNull())
        places = read.select("topic", "partition", "offset", hash_column(F.col("key")).alias(_HASH))
        return places.join(F.broadcast(wanted), _HASH, "left_semi").collect()


def hash_column(key: Column) -> Column:
    """`hash_of` in Spark."""
    return F.substring(F.sha2(key, 256), 1, DIGITS)


def _is_behind(at: Place, first: Place) -> bool:
    """A key is in one partition of a topic; what other topics have of it has no order with it, and waits too."""
    return at[:2] != first[:2] or at[2] > first[2]


def _set_aside(places: Iterable[Place]) -> SetAside:
    found: SetAside = {}
    for topic, partition, offset in places:
        found.setdefault((topic, partition), {})[offset] = HELD
    return found
