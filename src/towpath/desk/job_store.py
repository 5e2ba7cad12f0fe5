"""The tables `desk_job` and `desk_job_item`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.text import storable
from towpath.desk.case_state import CaseState
from towpath.desk.job import Due, Item, Job
from towpath.desk.job_state import MOVES, ItemState, JobKind, JobState
from towpath.desk.selection import Selection
from towpath.errors import IllegalJobMove, UnknownJob
from towpath.queue.payload import new_id

_ITEM = ("job_id", "number", "case_id", "state")
_ENDS = frozenset({JobState.ABORTED, JobState.FINISHED, JobState.FAILED})


class JobStore:
    """Reads and moves jobs and items inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "jobs", database.dialect)

    def insert(
        self,
        tx: Transaction,
        *,
        name: str,
        kind: JobKind,
        selection: Selection,
        arguments: Mapping[str, Any],
        rate_s: float | None,
        who: str,
        why: str,
        cases: int,
    ) -> Job:
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
        return Job.from_row(tx.rows(self._sql["insert_job"], values)[0])

    def read(self, tx: Transaction, id: str) -> Job:
        return _one(tx.rows(self._sql["read_job"], {"id": id}), id)

    def lock(self, tx: Transaction, id: str) -> Job:
        """As `read`; nobody else changes it until the transaction ends."""
        return _one(tx.rows(self._sql["lock_job"], {"id": id}), id)

    def find(self, tx: Transaction, text: str) -> Job:
        """By its id, a unique beginning of that, or its number."""
        found = tx.rows(self._sql["find_jobs"], {"text": text.lower()}) if text else []
        if len(found) > 1:
            raise UnknownJob(f"several jobs begin with {text!r}; write more of the id")
        return _one(found, text)

    def page(
        self, tx: Transaction, *, limit: int, before: int | None = None, state: JobState | None = None
    ) -> list[Job]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        rows = tx.rows(self._sql["list_jobs"], {"limit": limit, "before": before, "state": state})
        return [Job.from_row(row) for row in rows]

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
    ) -> Job:
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
        return Job.from_row(found[0])

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

    def next(self, tx: Transaction, job: Job, limit: int) -> list[Due]:
        """The next ones, oldest case first. The cases may be changed by others still."""
        rows = tx.rows(self._sql["next_items"], {"job": job.id, "after": job.worked_to, "limit": limit})
        return [Due.from_row(row) for row in rows]

    def settle(self, tx: Transaction, job: Job, due: Sequence[Due], refused: Mapping[str, str]) -> None:
        """These, which are the next ones, are done; but not those whose cases are among the refused."""
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
    ) -> list[Item]:
        """In their order; `after` is the number of the last one of the page before."""
        values = {"job": job, "limit": limit, "after": after, "state": state}
        return [Item.from_row(row) for row in tx.rows(self._sql["list_items"], values)]

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


def _one(rows: list[tuple[Any, ...]], id: str) -> Job:
    if not rows:
        raise UnknownJob(f"there is no bulk job {id!r}; `towpath desk job list` shows those there are")
    return Job.from_row(rows[0])
