"""The table `access_audit`: the trail of what was asked for in whose name, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from towpath.access.outcome import Outcome
from towpath.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.text import storable

LONGEST = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asks for: who, how they were known, what, about what, in which request."""

    who: str
    by: str
    what: str
    subject: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row of the trail."""

    seq: int
    at: datetime
    who: str
    by: str
    what: str
    subject: str
    outcome: Outcome
    reason: str
    request: str


class AuditStore:
    """Writes and reads the trail inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "audit", database.dialect)

    def add(self, tx: Transaction, asked: Asked, outcome: Outcome = Outcome.BEGUN, reason: str = "") -> int:
        """A new row; returns its number."""
        params = {
            "who": storable(asked.who)[:LONGEST],
            "known_by": storable(asked.by)[:LONGEST],
            "what": storable(asked.what)[:LONGEST],
            "subject": storable(asked.subject)[:LONGEST],
            "outcome": outcome,
            "reason": storable(reason)[:LONGEST],
            "request": storable(asked.request)[:LONGEST],
        }
        return int(tx.rows(self._sql["add_row"], params)[0][0])

    def end(self, tx: Transaction, seq: int, outcome: Outcome, reason: str = "") -> bool:
        """What came of it; false when that was known before."""
        params = {"seq": seq, "outcome": outcome, "reason": storable(reason)[:LONGEST]}
        return bool(tx.rows(self._sql["end_row"], params))

    def page(
        self, tx: Transaction, *, limit: int, before: int | None, who: str | None, subject: str | None
    ) -> list[AuditRow]:
        """The newest first; by person or by what it is about."""
        # A query for each filter, since one for all could use no index.
        query = "list_rows_of_subject" if subject else "list_rows_of_who" if who else "list_rows"
        named = {
            "who": None if who is None else storable(who),
            "subject": None if subject is None else storable(subject),
        }
        return [_row(row) for row in tx.rows(self._sql[query], {"limit": limit, "before": before, **named})]

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_rows"], {"older_than": older_than_us, "limit": limit})


def _row(row: Row) -> AuditRow:
    seq, at, who, by, what, subject, outcome, reason, request = row
    return AuditRow(seq, to_datetime(at), who, by, what, subject, Outcome(outcome), reason, request)
