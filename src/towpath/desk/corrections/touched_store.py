"""The table `desk_touched`: what rules have changed without asking, and whether it was right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from towpath.clock import to_datetime, to_micros
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.desk.case_state import CaseState

_COLUMNS = ("case_id", "edit", "field", "rule_id", "before", "after", "attempt", "verdict", "made_at")
UNKNOWN, RIGHT, WRONG = "unknown", "right", "wrong"  # verdicts


class Touch(NamedTuple):
    """One field of one record that a rule has changed. Values are tokens; None: there was nothing."""

    case_id: str
    edit: int
    field: str
    rule_id: int
    before: str | None
    after: str
    attempt: int  # failures so far


class TouchedMark(NamedTuple):
    """Where a page of what a rule has touched ended; the time is in microseconds."""

    made_at: int
    case_id: str
    edit: int
    field: str


@dataclass(frozen=True, slots=True)
class Touched:
    """The same as the table has it, with what the case is now; no state: it is gone."""

    case_id: str
    edit: int
    field: str
    rule_id: int
    before: str | None
    after: str
    verdict: str
    made_at: datetime
    state: CaseState | None
    input: str | None  # `orders/3/17`

    @property
    def mark(self) -> TouchedMark:
        return TouchedMark(to_micros(self.made_at), self.case_id, self.edit, self.field)


NEWEST = TouchedMark(2**63 - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff", 0, "")  # before this is everything


class TouchedStore:
    """Writes down and judges corrections inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.corrections", "touched", database.dialect)

    def add(self, tx: Transaction, touches: Iterable[Touch]) -> None:
        """In the transaction that changes the records."""
        now = self._database.now()
        rows = [(*touch, UNKNOWN, now) for touch in touches]
        if rows:
            tx.insert_many("desk_touched", _COLUMNS, rows)

    def to_judge(self, tx: Transaction, limit: int) -> list[str]:
        """Some cases with corrections of which it is known by now whether they were right."""
        return [str(id) for (id,) in tx.rows(self._sql["to_judge"], {"limit": limit})]

    def judge(self, tx: Transaction, ids: Sequence[str]) -> tuple[Counter[int], Counter[int]]:
        """How often which rule was right, and wrong, among what was not known before of these cases."""
        rows = tx.rows(self._sql["judge"], {"ids": json.dumps(list(ids))})
        right = Counter(int(rule) for rule, verdict in rows if verdict == RIGHT)
        return right, Counter(int(rule) for rule, verdict in rows if verdict == WRONG)

    def forget(self, tx: Transaction, rule: int, before_us: int, limit: int) -> int:
        """Delete some of what a rule has changed before that; returns how many."""
        return tx.run(self._sql["forget_touched"], {"rule": rule, "before": before_us, "limit": limit})

    def of_rule(self, tx: Transaction, rule: int, limit: int, before: TouchedMark | None = None) -> list[Touched]:
        """The newest first; `before` is the mark of the last one of the page before."""
        values = (before or NEWEST)._asdict()
        rows = tx.rows(self._sql["list_touched"], {"rule": rule, "limit": limit, **values})
        return [_touched(row) for row in rows]

    def standing(self, tx: Transaction, rule: int, limit: int) -> dict[str, int]:
        """Cases that still have a correction of the rule in what goes out next, with the number of that edit."""
        rows = tx.rows(self._sql["open_with_rule"], {"rule": rule, "limit": limit})
        return {str(id): int(edit) for id, edit in rows}

    def tallies(self, tx: Transaction, flow: str) -> dict[int, Counter[str]]:
        """By rule, how often which verdict."""
        found: dict[int, Counter[str]] = {}
        for rule, verdict, count in tx.rows(self._sql["count_touched"], {"flow": flow}):
            found.setdefault(int(rule), Counter())[verdict] = int(count)
        return found

    def agreements(self, tx: Transaction, flow: str) -> dict[int | None, Counter[bool]]:
        """By rule, how often operators have put what it suggested, and something else."""
        found: dict[int | None, Counter[bool]] = {}
        for rule, agrees, count in tx.rows(self._sql["count_verdicts"], {"flow": flow}):
            found.setdefault(None if rule is None else int(rule), Counter())[bool(agrees)] = int(count)
        return found


def _touched(row: Row) -> Touched:
    id, edit, field, rule, before, after, verdict, made_at, state, topic, partition, offset = row
    where = None if topic is None else f"{topic}/{partition}/{offset}"
    now = None if state is None else CaseState(state)
    return Touched(str(id), edit, field, rule, before, after, verdict, to_datetime(made_at), now, where)
