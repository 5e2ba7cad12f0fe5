"""The work of a bulk job, in portions: each moves cases and the outcomes of their items in one transaction.

So a crash repeats nothing: what an item says and what became of its case are written together or not at all. First the
cases are written down (*filling*), from the newest that was counted to the oldest; what comes later is not part of
the job. Then they are worked off, the oldest first. The job's row is locked meanwhile: two processes never work
at the same portion, and a pause or an abort counts from the next one on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.desk.bulk_acts import act_of
from towpath.desk.desk_parts import DeskParts
from towpath.desk.job import Job
from towpath.desk.job_state import AT_WORK, JobState
from towpath.desk.operating import perform
from towpath.desk.operating_acts import Act
from towpath.desk.ways import Ways
from towpath.events import Event, EventKind

FILL = 5_000  # items that are written at once, and
PORTION = 1_000  # cases that are moved at once: either takes SQLite well under 250 ms, on a busy machine too
LAST_SEQ = "last_seq"  # among the arguments of a job: what came after the case of this number is not part of it


class BulkRun:
    """One piece of work on one job. It remembers ways, so it is made anew now and then."""

    def __init__(self, parts: DeskParts, job_id: str) -> None:
        self._parts = parts
        self._id = job_id
        self._ways = Ways(parts.database, parts.log)
        self._act: Act | None = None

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
        """What came of it; or what has to be found out first, outside of a transaction."""
        job = self._parts.jobs.lock(tx, self._id)
        if job.state is not JobState.RUNNING:
            return job.state, 0
        act = self._act_of(job)
        most = min(most, act.most_at_once or most)
        due = self._parts.jobs.next(tx, job, most)
        cases = {each.case_id: each.case for each in due if each.case is not None}
        if unknown := self._ways.unknown(way for case in cases.values() if (way := act.way(case)) is not None):
            return partial(self._ways.ask, unknown)
        if unready := act.unready(cases.values()):
            return partial(act.get_ready, unready)
        why = f"{job.why} (job {job.seq}: {job.name})"
        done = perform(tx, act, [each.case_id for each in due], cases, self._ways, job.who, why)
        self._parts.jobs.settle(tx, job, due, done.refused)
        if len(due) == most:
            return JobState.RUNNING, most
        return self._finish(tx, job.id).state, len(due)

    def _act_of(self, job: Job) -> Act:
        """The same one each time: it remembers what was found out for it."""
        if self._act is None:
            self._act = act_of(self._parts, job)
        return self._act

    def _finish(self, tx: Transaction, id: str) -> Job:
        job = self._parts.jobs.move(tx, id, JobState.FINISHED)
        self._tell(tx, job, "towpath", job.why)
        return job

    def fail(self, tx: Transaction, reason: str) -> None:
        """It cannot go on by itself: with the end of its actor, so that a person can resume it."""
        job = self._parts.jobs.lock(tx, self._id)
        if job.state in AT_WORK:
            failed = self._parts.jobs.move(tx, job.id, JobState.FAILED, reason=reason)
            self._tell(tx, failed, "towpath", reason)

    def _tell(self, tx: Transaction, job: Job, who: str, why: str) -> None:
        self._parts.event_log.record(tx, Event(EventKind.DESK_JOB_ENDED, job.id, who, why, counts(job)))


def counts(job: Job) -> dict[str, Any]:
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


MakeRun = Callable[[str], BulkRun]
