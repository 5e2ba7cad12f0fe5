"""The actor that carries out a bulk job: it goes on after any crash, and one process at a time has it.

Its instance is named after the job. Who is at work and what comes next is in the queue, as with every actor; how far
the job is and what is wanted of it is in its row, which is looked at before every portion.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from towpath import crash
from towpath.actors.actor import Actor
from towpath.actors.next_step import Sleep
from towpath.actors.state import End, Failed, Resume, state
from towpath.actors.turn import Turn
from towpath.crash import CrashPoint
from towpath.desk.bulk_run import PORTION, BulkRun, MakeRun
from towpath.desk.job_state import JobState
from towpath.errors import DatabaseUnavailable, LogUnavailable

NAME = "desk-job"
TURN_S = 1.0  # portions are done in one turn for so long
AWAY_S = 2.0  # until it tries again when database or log are away
LONGEST_HOLD_S = 60.0  # a paused job is woken when it is resumed; this is for a wake-up that came too early


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
