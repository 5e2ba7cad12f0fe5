"""Looks how far the stages of a flow are with the uploads of its streams, and writes down when they have passed one.

1. The queries of an upload that nobody has declared are declared.
2. When all senders of an input have finished, the end of the input is fixed for each stage that reads it.
3. When the ledger has a stage at or beyond that end, the stage has passed it.
4. When all senders of the upload have finished and all stages that write to a topic have passed all that is theirs, the
   end of the upload in that topic is fixed for each stage that reads it; it passes as in 3.
5. When nothing is left, the upload has passed, and the closer takes it.

Each of these is written once, by a guarded statement: any number may look at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath import crash
from towpath.boundary.closing_plan import ClosingPlan
from towpath.boundary.pass_store import EVERYTHING, NO_ENDS, Ends, PassStore
from towpath.boundary.passing import Reached
from towpath.boundary.passing_moves import Fix, PassingMoves
from towpath.boundary.result_store import ResultStore
from towpath.boundary.sender_store import SenderStore
from towpath.boundary.state import UploadState
from towpath.boundary.upload_store import UploadStore
from towpath.crash import CrashPoint
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.errors import UnknownTopic
from towpath.events import Event, EventKind, Events
from towpath.flow.ledger import Ledger
from towpath.flow.stage_store import StageStore
from towpath.log.log import Log
from towpath.service import Result, Service

REST_S = 0.25
DECLARED_AT_ONCE = 100


class Passing(Service):
    """Runs beside the flow; for streams without a flow, beside the gateway."""

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

    def run_once(self) -> Result:
        done = self._declare()
        with self._database.read() as tx:
            uploads = self._passes.under_way(tx, self._plan.streams.keys())
            reached = self._reached(tx) if uploads else {}
        self._look_for_resets()
        done += sum(self._advance(upload, reached) for upload in uploads)
        return Result(done, 0 if done else REST_S)

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

    def _reached(self, tx: Transaction) -> dict[str, Reached]:
        found = {}
        for stage in self._stages.list(tx, self._plan.flow) if self._plan.flow else ():
            last = self._ledger.last_committed(tx, stage.flow, stage.name, stage.generation)
            found[stage.name] = Reached.of(None if last is None else last.positions, stage.starting)
        return found

    def _advance(self, id: str, reached: Mapping[str, Reached]) -> int:
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

    def _ends(self, fix: Fix) -> Ends:
        if not fix.topic:
            return NO_ENDS
        log = self._log()
        try:
            stops = log.written_ends(fix.topic) if fix.stops is None else fix.stops
            return Ends(log.topic(fix.topic).id, stops)
        except UnknownTopic:
            return NO_ENDS  # deleted: nothing can be read of it any more
