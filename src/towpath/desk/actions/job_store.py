"""Bulk jobs and their items: states, moves and the tables `desk_job` and `desk_job_item`.

docs/reference/desk-job-states.md is held equal to the states here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.desk.actions.actions import JobKind
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.errors import IllegalJobMove, UnknownJob
from towpath.queue.payload import new_id

_STATES = {state.value: state for state in CaseState}

_ITEM = ("job_id", "number", "case_id", "state")


class JobState(StrEnum):
    """How far a bulk job is."""

    COUNTED = "counted"  # named and counted; nothing is done until somebody begins it
    FILLING = "filling"  # its cases are being written down, one item each
    RUNNING = "running"  # item by item
    PAUSED = "paused"  # by a person; what is done is done, the rest waits
    FINISHED = "finished"  # every item has its outcome
    ABORTED = "aborted"  # by a person; what is done is done, the rest stays as it is
    FAILED = "failed"  # could not go on; the reason says why, and it can be resumed


_J = JobState
MOVES: Mapping[JobState, frozenset[JobState]] = {
    _J.COUNTED: frozenset({_J.FILLING, _J.ABORTED}),
    _J.FILLING: frozenset({_J.RUNNING, _J.PAUSED, _J.ABORTED, _J.FAILED}),
    _J.RUNNING: frozenset({_J.PAUSED, _J.FINISHED, _J.ABORTED, _J.FAILED}),
    _J.PAUSED: frozenset({_J.FILLING, _J.RUNNING, _J.ABORTED}),
    _J.FINISHED: frozenset(),
    _J.ABORTED: frozenset(),
    _J.FAILED: frozenset({_J.FILLING, _J.RUNNING}),
}
AT_WORK = frozenset({_J.FILLING, _J.RUNNING})

_ENDS = frozenset({JobState.ABORTED, JobState.FINISHED, JobState.FAILED})


class ItemState(StrEnum):
    """What became of one case in a job."""

    WAITING = "waiting"  # its turn has not come
    DONE = "done"
    REFUSED = "refused"  # the case did not allow it; the item says why


_I = ItemState
ITEM_MOVES: Mapping[ItemState, frozenset[ItemState]] = {
    _I.WAITING: frozenset({_I.DONE, _I.REFUSED}),
    _I.DONE: frozenset(),
    _I.REFUSED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class BulkJob:
    """One thing done to many cases, by one person, for one reason."""

    seq: int
    id: str
    name: str
    kind: JobKind
    state: JobState
    selection: CaseSelection
    arguments: Mapping[str, Any]
    rate_s: float | None  # most cases a second; None: as fast as it goes
    who: str
    why: str
    cases: int  # as counted; once it runs, how many items there are
    done: int
    refused: int
    reason: str | None
    made_at: datetime
    begun_at: datetime | None  # all items are written down, the first portion is next
    ended_at: datetime | None
    worked_to: int = 0  # the number of the last item that has its outcome

    @property
    def left(self) -> int:
        """How many items have no outcome yet."""
        return max(self.cases - self.done - self.refused, 0)

    @classmethod
    def from_row(cls, row: Row) -> BulkJob:
        seq, id, name, kind, state, selection, arguments, rate_s, who, why, cases, done, refused, reason, *rest = row
        *times, worked_to = rest
        made_at, begun_at, ended_at = (None if time is None else to_datetime(time) for time in times)
        assert made_at is not None  # noqa: S101 - a constraint of the table
        return cls(
            seq,
            id,
            name,
            JobKind(kind),
            JobState(state),
            CaseSelection.from_json(json.loads(selection)),
            json.loads(arguments),
            rate_s,
            who,
            why,
            cases,
            done,
            refused,
            reason,
            made_at,
            begun_at,
            ended_at,
            worked_to,
        )


class JobItem(NamedTuple):
    """One case in a job. Its number is the number of its case, so that the oldest come first."""

    number: int
    case_id: str
    state: ItemState
    said: str | None = None
    done_at: datetime | None = None

    @classmethod
    def from_row(cls, row: Row) -> JobItem:
        number, case_id, state, said, done_at = row
        return cls(number, case_id, ItemState(state), said, None if done_at is None else to_datetime(done_at))


class CaseBrief(NamedTuple):
    """As much of a case as it takes to do something to it: jobs have thousands of them."""

    id: str
    state: CaseState
    flow: str
    stage: str
    kind: str
    topic: str
    group_id: int


class DueItem(NamedTuple):
    """An item whose turn has come, with its case, unless that is gone."""

    number: int
    case_id: str
    case: CaseBrief | None

    @classmethod
    def from_row(cls, row: Row) -> DueItem:
        number, id, state, *rest = row
        return cls(number, id, None if state is None else CaseBrief(id, _STATES[state], *rest))


class JobStore:
    """Reads and moves jobs and items inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.actions", "jobs", database.dialect)

    def insert(
        self,
        tx: Transaction,
        *,
        name: str,
        kind: JobKind,
        selection: CaseSelection,
        arguments: Mapping[str, Any],
        rate_s: float | None,
        who: str,
        why: str,
        cases: int,
    ) -> BulkJob:
        values = {
            "id": new_id(),
            "name": storable(name),
            "kind": kind,
            "selection": json.dumps(selection.to_json()),
            "arguments": json.dumps(dict(arguments)),
            "rate_s": rate_s,
            "who": storable(who),
            "why": storable(why),
            "cases": cases,
        }
        return BulkJob.from_row(tx.rows(self._sql["insert_job"], values)[0])

    def read(self, tx: Transaction, id: str) -> BulkJob:
        return _one(tx.rows(self._sql["read_job"], {"id": id}), id)

    def lock(self, tx: Transaction, id: str) -> BulkJob:
        """As `read`; nobody else changes it until the transaction ends."""
        return _one(tx.rows(self._sql["lock_job"], {"id": id}), id)

    def find(self, tx: Transaction, text: str) -> BulkJob:
        """By its id, a unique beginning of that, or its number."""
        found = tx.rows(self._sql["find_jobs"], {"text": text.lower()}) if text else []
        if len(found) > 1:
            raise UnknownJob(f"several jobs begin with {text!r}; write more of the id")
        return _one(found, text)

    def page(
        self, tx: Transaction, *, limit: int, before: int | None = None, state: JobState | None = None
    ) -> list[BulkJob]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        rows = tx.rows(self._sql["list_jobs"], {"limit": limit, "before": before, "state": state})
        return [BulkJob.from_row(row) for row in rows]

    def move(
        self,
        tx: Transaction,
        id: str,
        to: JobState,
        *,
        frm: Collection[JobState] | None = None,
        reason: str | None = None,
        begins: bool = False,
        cases: int | None = None,
    ) -> BulkJob:
        """Raises `IllegalJobMove` when it is in another state."""
        allowed = [state for state, targets in MOVES.items() if to in targets and (frm is None or state in frm)]
        values = {
            "id": id,
            "to": to,
            "states": json.dumps(allowed),
            "reason": None if reason is None else storable(reason),
            "begins": int(begins),
            "ends": int(to in _ENDS),
            "cases": cases,
        }
        found = tx.rows(self._sql["move_job"], values)
        if not found:
            job = self.read(tx, id)
            raise IllegalJobMove(id, job.state, to, allowed, number=job.seq)
        return BulkJob.from_row(found[0])

    # Items

    def add_items(self, tx: Transaction, job: str, cases: Sequence[Row]) -> None:
        """Of each: number and id of the case, the newest first. Rows go in the other way, as the table has them."""
        waiting = ItemState.WAITING.value
        tx.insert_many("desk_job_item", _ITEM, [(job, number, case, waiting) for number, case in reversed(cases)])

    def lowest(self, tx: Transaction, job: str) -> int | None:
        """The number of the last item that was written down, since they are written from the newest to the oldest."""
        lowest: int | None = tx.rows(self._sql["lowest_item"], {"job": job})[0][0]
        return lowest

    def count_items(self, tx: Transaction, job: str) -> int:
        return int(tx.rows(self._sql["count_items"], {"job": job})[0][0])

    def next(self, tx: Transaction, job: BulkJob, limit: int) -> list[DueItem]:
        """The next ones, oldest case first. The cases may be changed by others still."""
        rows = tx.rows(self._sql["next_items"], {"job": job.id, "after": job.worked_to, "limit": limit})
        return [DueItem.from_row(row) for row in rows]

    def settle(self, tx: Transaction, job: BulkJob, due: Sequence[DueItem], refused: Mapping[str, str]) -> None:
        """Set the results of the next items: done, except for those whose cases are refused."""
        if not due:
            return
        upto = due[-1].number
        why_not = [(each.number, storable(refused[each.case_id])) for each in due if each.case_id in refused]
        settled = tx.run(self._sql["items_refused"], {"job": job.id, "rows": json.dumps(why_not)}) if why_not else 0
        settled += tx.run(self._sql["items_done"], {"job": job.id, "after": job.worked_to, "upto": upto})
        if settled != len(due):
            raise IllegalJobMove(job.id, "an item has its outcome", "another outcome of it", (), number=job.seq)
        counts = {"done": len(due) - len(why_not), "refused": len(why_not)}
        tx.run(self._sql["count_done"], {"id": job.id, "upto": upto, **counts})

    def items(
        self, tx: Transaction, job: str, *, limit: int, after: int = 0, state: ItemState | None = None
    ) -> list[JobItem]:
        """In their order; `after` is the number of the last one of the page before."""
        values = {"job": job, "limit": limit, "after": after, "state": state}
        return [JobItem.from_row(row) for row in tx.rows(self._sql["list_items"], values)]

    def cases_now(self, tx: Transaction, job: str) -> dict[CaseState, int]:
        """Where the cases are now to which it was done."""
        return {CaseState(state): count for state, count in tx.rows(self._sql["cases_now"], {"job": job})}

    # Their time is over

    def forget_items(self, tx: Transaction, before_us: int, limit: int) -> int:
        """Delete some items of jobs that have ended before that; returns how many."""
        return tx.run(self._sql["forget_items"], {"before": before_us, "limit": limit})

    def forget(self, tx: Transaction, before_us: int, limit: int) -> int:
        """Delete such jobs that have no items any more; returns how many."""
        return tx.run(self._sql["forget_jobs"], {"before": before_us, "limit": limit})


def _one(rows: list[tuple[Any, ...]], id: str) -> BulkJob:
    if not rows:
        raise UnknownJob(f"there is no bulk job {id!r}; `towpath desk job list` shows those there are")
    return BulkJob.from_row(rows[0])
