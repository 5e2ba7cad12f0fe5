"""Carries out a bulk job, in portions: each moves cases and sets the results of their items in one transaction.

So a crash repeats nothing: the result in an item and the change of its case are written together or not at all. First
the cases are written down (*filling*), from the newest that was counted to the oldest; what comes later is not part
of the job. Then they are processed, oldest first. The job's row is locked meanwhile: two processes never work on the
same portion, and a pause or an abort counts from the next one on.

The actor `DeskJob` drives this: it goes on after any crash, and only one process at a time has it. Its instance is
named after the job. Who is at work and what comes next is in the queue, as with every actor; how far the job is and
what people want of it is in its row, which is read before every portion.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from towpath.actors.actor import Actor, End, Failed, Resume, Sleep, state
from towpath.actors.turn import Turn
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.desk.actions.actions import CaseAction, make_act
from towpath.desk.actions.job_store import AT_WORK, JobState
from towpath.desk.actions.service import perform
from towpath.desk.replay.recall import RouteCheck
from towpath.errors import DatabaseUnavailable, LogUnavailable

if TYPE_CHECKING:
    from towpath.desk.actions.job_store import BulkJob
    from towpath.desk.context import DeskContext


FILL = 5_000  # items that are written at once, and
PORTION = 1_000  # cases that are moved at once: either takes SQLite well under 250 ms, on a busy machine too
LAST_SEQ = "last_seq"  # among the arguments of a job: what came after the case of this number is not part of it

NAME = "desk-job"
TURN_S = 1.0  # portions are done in one turn for so long
AWAY_S = 2.0  # until it tries again when database or log are away
LONGEST_HOLD_S = 60.0  # a paused job is woken when it is resumed; this is for a wake-up that came too early


class DeskJob(Actor):
    """Does one thing to many cases of the desk, portion by portion, and remembers what became of each."""

    name = NAME
    make_run: ClassVar[MakeRun]

    def transition(self, state: Fill | Work | Hold | End | Failed, turn: Turn) -> Any:
        if isinstance(state, End):
            return None
        if isinstance(state, Failed):
            reason = state.reason
            run = self._run(turn.instance)
            turn.in_commit(lambda tx: run.fail(tx, reason))
            return None
        try:
            return self._go(state, turn)
        except (DatabaseUnavailable, LogUnavailable):
            return Sleep(state, seconds=AWAY_S)

    def _go(self, state: Fill | Work | Hold, turn: Turn) -> Any:
        run = self._run(state.job)
        match state:
            case Fill(job, rate_s):
                return _next(_filled(run, turn), job, rate_s)
            case Work(job, rate_s):
                now, rest_s = _worked(run, turn, rate_s)
                return _next(now, job, rate_s, rest_s=rest_s)
            case Hold(job, rate_s, looks):
                return _next(run.state(), job, rate_s, looks=looks + 1)

    def _run(self, job: str) -> BulkRun:
        return type(self).make_run(job)


def hosted(make_run: MakeRun) -> type[DeskJob]:
    """The class for one process, which knows that process's database and log."""
    return type("DeskJob", (DeskJob,), {"make_run": staticmethod(make_run), "__doc__": DeskJob.__doc__})


def _filled(run: BulkRun, turn: Turn) -> JobState:
    end = time.monotonic() + TURN_S
    while (now := run.fill()) is JobState.FILLING:
        if turn.is_aborted or time.monotonic() > end:
            break
    return now


def _worked(run: BulkRun, turn: Turn, rate_s: float | None) -> tuple[JobState, float]:
    """The state of the job, and how long to rest so that it is no faster than it may be."""
    end = time.monotonic() + TURN_S
    most = PORTION if rate_s is None else max(1, min(PORTION, int(rate_s)))
    while True:
        now, done = run.work(most)
        if now is not JobState.RUNNING:
            return now, 0.0
        if rate_s is not None:
            return now, done / rate_s
        if turn.is_aborted or time.monotonic() > end:
            return now, 0.0


def _next(now: JobState, job: str, rate_s: float | None, *, rest_s: float = 0.0, looks: int = 0) -> Any:
    match now:
        case JobState.FILLING:
            return Fill(job, rate_s)
        case JobState.RUNNING:
            return Sleep(Work(job, rate_s), seconds=rest_s) if rest_s else Work(job, rate_s)
        case JobState.PAUSED:
            return Sleep(Hold(job, rate_s, looks), seconds=min(2.0**looks, LONGEST_HOLD_S))
        case _:
            crash.here(CrashPoint.JOB_ENDED)
            return End({"state": now})


class BulkRun:
    """One piece of work on one job. It remembers routes, so it is made anew now and then."""

    def __init__(self, parts: DeskContext, job_id: str) -> None:
        self._parts = parts
        self._id = job_id
        self._routes = RouteCheck(parts.database, parts.log)
        self._act: CaseAction | None = None

    def state(self) -> JobState:
        """Where the job is now."""
        with self._parts.database.read() as tx:
            return self._parts.jobs.read(tx, self._id).state

    def fill(self) -> JobState:
        """Write down some more of its cases; the state in which the job is then."""
        with self._parts.database.transaction() as tx:
            now = self._fill(tx)
            crash.here(CrashPoint.JOB_FILL_BEFORE_COMMIT)
        crash.here(CrashPoint.JOB_FILL_AFTER_COMMIT)
        return now

    def _fill(self, tx: Transaction) -> JobState:
        job = self._parts.jobs.lock(tx, self._id)
        if job.state is not JobState.FILLING:
            return job.state
        lowest = self._parts.jobs.lowest(tx, job.id)
        before = int(job.arguments[LAST_SEQ]) + 1 if lowest is None else lowest
        page = self._parts.cases.keys(tx, job.selection, FILL, before)
        self._parts.jobs.add_items(tx, job.id, page)
        if len(page) == FILL:
            return JobState.FILLING
        counted = self._parts.jobs.count_items(tx, job.id)
        return self._parts.jobs.move(tx, job.id, JobState.RUNNING, begins=True, cases=counted).state

    def work(self, most: int = PORTION) -> tuple[JobState, int]:
        """Do it to some more of its cases; the state in which the job is then, and to how many it was done."""
        while True:
            with self._parts.database.transaction() as tx:
                found = self._work(tx, min(most, PORTION))
                crash.here(CrashPoint.JOB_WORK_BEFORE_COMMIT)
            crash.here(CrashPoint.JOB_WORK_AFTER_COMMIT)
            if not callable(found):
                return found
            found()

    def _work(self, tx: Transaction, most: int) -> tuple[JobState, int] | Callable[[], None]:
        """The state of the job and how many items were due; or what must be done first, outside of a transaction."""
        job = self._parts.jobs.lock(tx, self._id)
        if job.state is not JobState.RUNNING:
            return job.state, 0
        if self._act is None:  # kept, since it remembers what was found out for it
            self._act = make_act(self._parts, job.kind, job.arguments)
        act = self._act
        most = min(most, act.most_at_once or most)
        due = self._parts.jobs.next(tx, job, most)
        cases = {each.case_id: each.case for each in due if each.case is not None}
        if unknown := self._routes.unknown(route for case in cases.values() if (route := act.route(case)) is not None):
            return partial(self._routes.ask, unknown)
        if unready := act.unready(cases.values()):
            return partial(act.get_ready, unready)
        why = f"{job.why} (job {job.seq}: {job.name})"
        done = perform(tx, act, [each.case_id for each in due], cases, self._routes, job.who, why)
        self._parts.jobs.settle(tx, job, due, done.refused)
        if len(due) == most:
            return JobState.RUNNING, most
        finished = self._parts.jobs.move(tx, job.id, JobState.FINISHED)
        self._tell(tx, finished, job.why)
        return finished.state, len(due)

    def fail(self, tx: Transaction, reason: str) -> None:
        """Mark the job as failed, in the transaction that ends its actor, so that a person can resume it."""
        job = self._parts.jobs.lock(tx, self._id)
        if job.state in AT_WORK:
            failed = self._parts.jobs.move(tx, job.id, JobState.FAILED, reason=reason)
            self._tell(tx, failed, reason)

    def _tell(self, tx: Transaction, job: BulkJob, why: str) -> None:
        self._parts.event_log.record(tx, Event(EventKind.DESK_JOB_ENDED, job.id, "towpath", why, counts(job)))


MakeRun = Callable[[str], BulkRun]


def counts(job: BulkJob) -> dict[str, Any]:
    """How far it is, for events and programs."""
    return {
        "name": job.name,
        "kind": job.kind,
        "state": job.state,
        "cases": job.cases,
        "done": job.done,
        "refused": job.refused,
        "left": job.left,
    }


@state(resume=Resume.RETRY)
class Fill:
    """Its cases are being written down."""

    job: str
    rate_s: float | None = None


@state(resume=Resume.RETRY)
class Work:
    """Cases are worked off."""

    job: str
    rate_s: float | None = None


@state(resume=Resume.RETRY)
class Hold:
    """A person has paused it."""

    job: str
    rate_s: float | None = None
    looks: int = 0
