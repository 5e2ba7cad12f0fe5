"""Bulk jobs as people see them: counted first, begun with a name and a reason, paused, resumed, aborted, shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.actors.instance import Phase
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.desk.actions.actions import JobKind, make_act
from towpath.desk.actions.job_run import LAST_SEQ, BulkRun, DeskJob, Fill, Work, counts, hosted
from towpath.desk.actions.job_store import AT_WORK, ItemState, JobState
from towpath.desk.actions.service import check_sees_all
from towpath.desk.cases.model import CaseSelection, CaseState, has_hidden_search
from towpath.desk.masks import NO_MASKS, Masks
from towpath.errors import BadName, BadValue, FieldsMasked, IllegalJobMove

if TYPE_CHECKING:
    from towpath.desk.actions.job_store import BulkJob, JobItem
    from towpath.desk.context import DeskContext


LONGEST_NAME = 200
FASTEST = 1e6


@dataclass(frozen=True, slots=True)
class JobCount:
    """How many cases match, and the number of the newest case of all: later ones are not part of the job."""

    cases: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, where its cases are now, and the first items that were refused."""

    job: BulkJob
    now: Mapping[CaseState, int]
    refused: tuple[JobItem, ...]


class JobService:
    """Plans, begins, pauses, resumes, aborts and shows bulk jobs."""

    def __init__(self, parts: DeskContext) -> None:
        self._parts = parts
        self._actor = hosted(lambda id: BulkRun(parts, id))

    # Making one

    def meant(
        self, kind: JobKind, selection: CaseSelection, arguments: Mapping[str, Any] | None = None
    ) -> CaseSelection:
        """The selection, without cases to which this cannot be done, unless states were named."""
        act = make_act(self._parts, kind, arguments or {})
        return selection if selection.states is not None else selection.within(states=tuple(sorted(act.frm)))

    def count(
        self,
        kind: JobKind,
        selection: CaseSelection,
        arguments: Mapping[str, Any] | None = None,
        *,
        masks: Masks = NO_MASKS,
    ) -> JobCount:
        """A dry run: to how many cases it would be done now."""
        self._check(kind, selection, arguments, masks)
        meant = self.meant(kind, selection, arguments)
        with self._parts.database.read() as tx:
            return self._count(tx, meant)

    def _check(
        self, kind: JobKind, selection: CaseSelection, arguments: Mapping[str, Any] | None, masks: Masks
    ) -> None:
        """Whether this person may ask for such a job, and whether it can be done at all."""
        _check_sees(kind, selection, masks)
        make_act(self._parts, kind, arguments or {}).check()
        if selection.group is not None:
            with self._parts.database.read() as tx:
                self._parts.groups.read(tx, selection.group)  # nothing would be done, which looks like success

    def _count(self, tx: Transaction, meant: CaseSelection) -> JobCount:
        newest = self._parts.cases.page(tx, CaseSelection(), 1)
        return JobCount(self._parts.cases.count(tx, meant), newest[0].seq if newest else 0)

    def plan(
        self,
        kind: JobKind,
        selection: CaseSelection,
        *,
        who: str,
        why: str,
        name: str | None = None,
        rate_s: float | None = None,
        arguments: Mapping[str, Any] | None = None,
        counted: JobCount | None = None,
        begin: bool = False,
        masks: Masks = NO_MASKS,
        tx: Transaction | None = None,
    ) -> BulkJob:
        """Name it and count its cases, or take what was counted before; with `begin`, begin it as well.

        With `tx` it is part of a change that the caller makes, and has checked.
        """
        check_who(who)
        check_why(why)
        if tx is None:
            self._check(kind, selection, arguments, masks)

        def act(tx: Transaction) -> BulkJob:
            meant = self.meant(kind, selection, arguments)
            found = counted or self._count(tx, meant)
            job = self._parts.jobs.insert(
                tx,
                name=_check_name(f"{kind} {_described(selection)}"[:LONGEST_NAME] if name is None else name),
                kind=kind,
                selection=meant,
                arguments={**(arguments or {}), LAST_SEQ: found.last_seq, "counted": found.cases},
                rate_s=_check_rate(rate_s),
                who=who,
                why=why,
                cases=found.cases,
            )
            self._tell(tx, job, "begun" if begin else "counted", who, why)
            return self._begin(tx, job) if begin else job

        return commit_by_hand(self._parts.database, act) if tx is None else act(tx)

    def begin(self, id: str, *, who: str, why: str) -> BulkJob:
        """Begin a job that was counted."""

        def act(tx: Transaction) -> BulkJob:
            job = self._begin(tx, self._parts.jobs.lock(tx, id))
            self._tell(tx, job, "begun", who, why)
            return job

        return commit_by_hand(self._parts.database, act)

    def _begin(self, tx: Transaction, job: BulkJob) -> BulkJob:
        begun = self._parts.jobs.move(tx, job.id, JobState.FILLING, frm=(JobState.COUNTED,))
        self._parts.actors.start(DeskJob.name, Fill(job.id, job.rate_s), instance=job.id, tx=tx)
        return begun

    # What persons want of it

    def pause(self, id: str, *, who: str, why: str) -> BulkJob:
        """Let it rest after the portion that is under way."""

        def act(tx: Transaction) -> BulkJob:
            job = self._parts.jobs.move(tx, id, JobState.PAUSED, reason=f"paused by {who}: {why}")
            self._tell(tx, job, "paused", who, why)
            return job

        return commit_by_hand(self._parts.database, act)

    def resume(self, id: str, *, who: str, why: str) -> BulkJob:
        """Let it go on: one that is paused, one that has failed, or one that nobody carries out any more."""

        def act(tx: Transaction) -> BulkJob:
            is_carried_out = self._wake(tx, id)
            job = self._parts.jobs.lock(tx, id)
            to = JobState.FILLING if job.begun_at is None else JobState.RUNNING
            if job.state not in AT_WORK:
                job = self._parts.jobs.move(tx, id, to, frm=(JobState.PAUSED, JobState.FAILED))
            elif is_carried_out:
                allowed = (JobState.PAUSED, JobState.FAILED)
                raise IllegalJobMove(id, job.state, "resume", allowed, number=job.seq)
            if not is_carried_out:
                step = Fill(job.id, job.rate_s) if to is JobState.FILLING else Work(job.id, job.rate_s)
                self._parts.actors.start(DeskJob.name, step, instance=job.id, tx=tx)
            self._tell(tx, job, "resumed", who, why)
            return job

        return commit_by_hand(self._parts.database, act)

    def abort(self, id: str, *, who: str, why: str) -> BulkJob:
        """End it: what is done stays done, all other cases stay as they are."""

        def act(tx: Transaction) -> BulkJob:
            self._wake(tx, id)
            job = self._parts.jobs.move(tx, id, JobState.ABORTED, reason=f"aborted by {who}: {why}")
            self._tell(tx, job, "aborted", who, why)
            return job

        return commit_by_hand(self._parts.database, act)

    def _wake(self, tx: Transaction, id: str) -> bool:
        """Let its actor look at once, if that sleeps; whether there is one that will look at all.

        Asked before the job's row is locked: an actor that fails locks them in this order.
        """
        instance = self._parts.actors.wake_in(tx, DeskJob.name, id)
        return instance is not None and instance.phase not in (Phase.ENDED, Phase.FAILED)

    # Looking

    def find(self, text: str) -> BulkJob:
        """By its id, a unique beginning of that, or its number."""
        with self._parts.database.read() as tx:
            return self._parts.jobs.find(tx, text)

    def page(self, *, limit: int = 50, before: int | None = None, state: JobState | None = None) -> list[BulkJob]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        with self._parts.database.read() as tx:
            return self._parts.jobs.page(tx, limit=limit, before=before, state=state)

    def show(self, id: str) -> JobView:
        """One of them, with what has become of its cases since."""
        with self._parts.database.read() as tx:
            job = self._parts.jobs.read(tx, id)
            refused = self._parts.jobs.items(tx, id, limit=10, state=ItemState.REFUSED)
            return JobView(job, self._parts.jobs.cases_now(tx, id), tuple(refused))

    def items(self, id: str, *, limit: int = 50, after: int = 0, state: ItemState | None = None) -> list[JobItem]:
        """In their order; `after` is the number of the last one of the page before."""
        with self._parts.database.read() as tx:
            return self._parts.jobs.items(tx, id, limit=limit, after=after, state=state)

    # Carrying them out

    def actor(self) -> type[DeskJob]:
        """What a process registers that carries out jobs, and hosts as any other actor; the same one each time."""
        return self._actor

    def _tell(self, tx: Transaction, job: BulkJob, what: str, who: str, why: str) -> None:
        data = {"what": what, **counts(job)}
        event = Event(EventKind.DESK_JOB_CHANGED_BY_HAND, job.id, check_who(who), check_why(why), data)
        self._parts.event_log.record(tx, event)


def _check_sees(kind: JobKind, selection: CaseSelection, masks: Masks) -> None:
    """The number of cases that a search finds would tell what is hidden from the one who searches."""
    if kind is JobKind.CORRECT:
        check_sees_all(masks)
    if masks and has_hidden_search(selection):
        raise FieldsMasked("some fields are masked for you: choose cases by something else than their text or body")


def _described(selection: CaseSelection) -> str:
    said = selection.to_json()
    said.pop("states", None)
    if selection.ids is not None:
        said["ids"] = f"{len(selection.ids)} cases"
    return ", ".join(f"{name} {value}" for name, value in said.items()) or "all"


def _check_name(name: str) -> str:
    if not name.strip() or len(name) > LONGEST_NAME:
        raise BadName(f"a bulk job has a name of 1 to {LONGEST_NAME} characters")
    return name


def _check_rate(rate_s: float | None) -> float | None:
    if rate_s is not None and not 0 < rate_s <= FASTEST:
        raise BadValue(f"rate_s={rate_s!r}: it is a number of cases a second, above 0")
    return rate_s
