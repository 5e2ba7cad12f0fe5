"""Looks how far the stages of a flow are with the uploads of its streams, and writes down when they have passed one.

1. The queries of an upload that nobody has declared are declared.
2. When all senders of an input have finished, the end of the input is fixed for each stage that reads it.
3. When the ledger has a stage at or beyond that end, the stage has passed it.
4. When all senders of the upload have finished and all stages that write to a topic have passed all that is theirs, the
   end of the upload in that topic is fixed for each stage that reads it; it passes as in 3.
5. When nothing is left, the upload has passed, and the closer takes it.

Each of these is written once, by a guarded statement: any number may look at the same time. `PassingMoves` decides
what is new about one upload; it is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.errors import UnknownTopic
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.stage.store import StageStore
from towpath.gateway.completion.plan import (
    ALL_STAGES,
    EVERYTHING,
    NO_ENDS,
    NOWHERE,
    WRITTEN,
    ClosingPlan,
    PassStore,
    StagePass,
    StageReached,
    StreamPlan,
    TopicEnds,
    has_come_to,
    latest,
)
from towpath.gateway.outlet.store import ResultStore
from towpath.gateway.uploads.model import UploadSender, UploadState
from towpath.gateway.uploads.store import SenderStore, UploadStore
from towpath.log.log import Log

Key = tuple[str, str]  # input and stage

REST_S = 0.25
DECLARED_AT_ONCE = 100


class PassTracker(Service):
    """Tracks uploads through the stages. Runs beside the flow; for streams without a flow, beside the gateway."""

    name = "upload passing"

    def __init__(
        self,
        plan: ClosingPlan,
        database: Database,
        log: Callable[[], Log],
        events: Events,
        event_log: EventLog,
        on_reset: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_reset` is called when a stage has begun a new generation."""
        super().__init__(events)
        self._on_reset = on_reset
        self._generations: dict[str, int] = {}
        self._plan = plan
        self._database = database
        self._log = log
        self._record = event_log.record
        self._uploads = UploadStore(database)
        self._senders = SenderStore(database)
        self._passes = PassStore(database)
        self._results = ResultStore(database)
        self._stages = StageStore(database)
        self._ledger = Ledger(database)

    def run_once(self) -> RoundResult:
        done = self._declare()
        with self._database.read() as tx:
            uploads = self._passes.under_way(tx, self._plan.streams.keys())
            reached = self._reached(tx) if uploads else {}
        self._look_for_resets()
        done += sum(self._advance(upload, reached) for upload in uploads)
        return RoundResult(done, 0 if done else REST_S)

    def _declare(self) -> int:
        """Act 1."""
        promising = [name for name, plan in self._plan.streams.items() if plan.results]
        if not promising:
            return 0
        with self._database.read() as tx:
            found = self._results.undeclared(tx, promising, DECLARED_AT_ONCE)
        if not found:
            return 0
        with self._database.transaction() as tx:
            for upload, stream in found:
                for declared in self._plan.streams[stream].results:
                    self._results.declare(tx, upload, declared)
        return len(found)

    def _look_for_resets(self) -> None:
        if not self._plan.flow:
            return
        with self._database.read() as tx:
            now = {stage.name: stage.generation for stage in self._stages.list(tx, self._plan.flow)}
        if self._generations and now != self._generations:
            self._on_reset()
        self._generations = now

    def _reached(self, tx: Transaction) -> dict[str, StageReached]:
        found = {}
        for stage in self._stages.list(tx, self._plan.flow) if self._plan.flow else ():
            last = self._ledger.last_committed(tx, stage.flow, stage.name, stage.generation)
            found[stage.name] = StageReached.of(None if last is None else last.positions, stage.starting)
        return found

    def _advance(self, id: str, reached: Mapping[str, StageReached]) -> int:
        """Acts 2 to 5, as far as they can go now; returns how much was written down."""
        with self._database.read() as tx:
            upload = self._uploads.read(tx, id)
            senders, passes = self._senders.of_upload(tx, id), self._passes.of_upload(tx, id)
        moves = PassingMoves(self._plan.streams[upload.stream], senders, passes, reached)
        moves.look(upload.state is UploadState.CLOSING)
        if not moves.fixes and not moves.marks:
            return 0
        # Asked after the ledger was: what the writers of a topic have committed lies before its end.
        ends = [self._ends(fix) for fix in moves.fixes]
        with self._database.transaction() as tx:
            for fix, end in zip(moves.fixes, ends, strict=True):
                self._passes.add(tx, id, fix.input, fix.stage, end)
            marked = [key for key in moves.marks if self._passes.mark(tx, id, *key)]
            for input, stage in marked:
                if stage or input == EVERYTHING:
                    data = {"stream": upload.stream, "input": input, "stage": stage}
                    self._record(tx, Event(EventKind.UPLOAD_PASSED, id, data=data))
            crash.here(CrashPoint.UPLOAD_PASS_BEFORE_COMMIT)
        crash.here(CrashPoint.UPLOAD_PASS_AFTER_COMMIT)
        return len(moves.fixes) + len(marked)

    def _ends(self, fix: Fix) -> TopicEnds:
        if not fix.topic:
            return NO_ENDS
        log = self._log()
        try:
            stops = log.written_ends(fix.topic) if fix.stops is None else fix.stops
            return TopicEnds(log.topic(fix.topic).id, stops)
        except UnknownTopic:
            return NO_ENDS  # deleted: nothing can be read of it any more


class PassingMoves:
    """Looks once at an upload; `fixes` are ends that are known now, `marks` those that a stage has come to."""

    def __init__(
        self,
        plan: StreamPlan,
        senders: Sequence[UploadSender],
        passes: Sequence[StagePass],
        reached: Mapping[str, StageReached],
    ) -> None:
        self.fixes: list[Fix] = []
        self.marks: list[Key] = []
        self._plan = plan
        self._senders = {input: [each for each in senders if each.input == input] for input in plan.topics}
        self._reached = reached
        self._known = {(each.input, each.stage): each for each in passes}
        self._passed = {key for key, each in self._known.items() if each.is_passed}

    def look(self, is_closing: bool) -> None:
        for input, senders in self._senders.items():
            if senders and all(sender.is_finished for sender in senders):
                self._look_at_input(input, senders)
        if is_closing:
            self._look_at_written()
            self._look_at_everything()

    def _look_at_input(self, input: str, senders: Sequence[UploadSender]) -> None:
        """Acts 2 and 3."""
        stages, topic = self._plan.route.direct.get(input, ()), self._plan.topics[input]
        if (input, ALL_STAGES) not in self._known:
            stops = latest([sender.ends or {} for sender in senders])
            self.fixes += [*(Fix(input, stage, topic, stops) for stage in stages), Fix(input, ALL_STAGES)]
            return
        for stage in stages:
            self._look_at_stage((input, stage), topic)
        if all((input, stage) in self._passed for stage in stages):
            self._mark((input, ALL_STAGES))

    def _look_at_written(self) -> None:
        """Act 4."""
        for each in self._plan.route.written:
            key = WRITTEN + each.topic, each.stage
            if key in self._known:
                self._look_at_stage(key, each.topic)
            elif all(map(self._is_done, each.writers)):
                self.fixes.append(Fix(*key, each.topic))

    def _look_at_everything(self) -> None:
        """Act 5."""
        if (EVERYTHING, ALL_STAGES) in self._passed:
            return
        inputs = [(input, ALL_STAGES) for input, senders in self._senders.items() if senders]
        written = [(WRITTEN + each.topic, each.stage) for each in self._plan.route.written]
        if all(key in self._passed for key in (*inputs, *written)):
            self.fixes.append(Fix(EVERYTHING, ALL_STAGES))
            self._mark((EVERYTHING, ALL_STAGES))

    def _look_at_stage(self, key: Key, topic: str) -> None:
        if has_come_to(self._reached.get(key[1], NOWHERE), topic, self._known[key].ends):
            self._mark(key)

    def _mark(self, key: Key) -> None:
        if key not in self._passed:
            self.marks.append(key)
            self._passed.add(key)

    def _is_done(self, stage: str) -> bool:
        """Whether a stage has passed all that it is to read of this upload."""
        direct = self._plan.route.direct.items()
        read = [(input, stage) for input, stages in direct if self._senders[input] and stage in stages]
        fed = [(WRITTEN + each.topic, stage) for each in self._plan.route.written if each.stage == stage]
        return all(key in self._passed for key in (*read, *fed))


class Fix(NamedTuple):
    """An end that is to be written down. `stops` None: it is that of the topic as it is now."""

    input: str
    stage: str
    topic: str = ""
    stops: Mapping[int, int] | None = None
