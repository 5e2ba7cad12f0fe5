"""The `event` table, and changes by hand: what happened is kept in the same transaction as the change itself.

Everything that a person changes goes through `commit_by_hand`, under a name and with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from towpath.core import crash
from towpath.core.clock import to_datetime, to_micros
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, Events
from towpath.db.database import Database, Queries, Row, Transaction, storable
from towpath.db.paging import LAST_SEQ, LOOK_S, SLACK_US, SearchPage, cut, search
from towpath.errors import BadName, BadValue

T = TypeVar("T")

_also: ContextVar[Callable[[Transaction], None] | None] = ContextVar("also", default=None)


class EventLog:
    """Writes events with the work they belong to, and tells this process's subscribers once that has committed."""

    def __init__(self, database: Database, events: Events) -> None:
        self._sql = Queries("towpath.db", "events", database.dialect)
        self._events = events

    def record(self, tx: Transaction, event: Event) -> None:
        written = tx.run(
            self._sql["record_event"],
            {
                "kind": event.kind,
                "subject": event.subject,
                "who": storable(event.who) or "unknown",
                "why": storable(event.why),
                "data": json.dumps(dict(event.data), default=str),
            },
        )
        if written:
            tx.after_commit(lambda: self._events.publish(event))

    def page(
        self,
        tx: Transaction,
        *,
        limit: int,
        before: int | None = None,
        kind: str | None = None,
        subject: str | None = None,
    ) -> list[StoredEvent]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        # A query for each filter, since one for all could use no index.
        query = "list_events_of_subject" if subject else "list_events_of_kind" if kind else "list_events"
        params = {"limit": limit, "before": before, "kind": kind, "subject": subject}
        return [_stored(row) for row in tx.rows(self._sql[query], params)]

    def search(
        self,
        tx: Transaction,
        *,
        limit: int,
        before: int | None = None,
        kind: str | None = None,
        subject: str | None = None,
        who: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        look_s: float = LOOK_S,
    ) -> SearchPage[StoredEvent]:
        """The newest first, as many as are found in a moment: a page may be short and have a `next`."""
        if who is None and since is None and until is None:
            return cut(self.page(tx, limit=limit + 1, before=before, kind=kind, subject=subject), limit)
        end = "_of_subject" if subject else "_of_kind" if kind else ""
        since_us = None if since is None else to_micros(since)
        until_us = None if until is None else to_micros(until)
        given = {"kind": kind, "subject": subject, "who": who, "since": since_us, "until": until_us}

        def read(before: int, floor: int, limit: int) -> list[StoredEvent]:
            bounds = {"before": before, "floor": floor, "limit": limit}
            return [_stored(row) for row in tx.rows(self._sql[f"search_events{end}"], {**given, **bounds})]

        lowest = 0 if since_us is None else self._last_before(tx, since_us - SLACK_US)
        if until_us is not None:
            before = min(LAST_SEQ if before is None else before, self._last_before(tx, until_us + SLACK_US) + 1)
        newest_below = partial(self._newest_below, tx)
        return search(read, newest_below, limit=limit, before=before, lowest=lowest, look_s=look_s)

    def _newest_below(self, tx: Transaction, below: int) -> int | None:
        newest: int | None = tx.rows(self._sql["newest_below"], {"below": below})[0][0]
        return newest

    def _last_before(self, tx: Transaction, at_us: int) -> int:
        """The number of the last event before a time; 0 when there is none."""
        rows = tx.rows(self._sql["last_before"], {"at": at_us})
        return int(rows[0][0]) if rows else 0

    def after(self, tx: Transaction, seq: int, limit: int = 500) -> Iterator[StoredEvent]:
        """The events after a number, oldest first."""
        return map(_stored, tx.rows(self._sql["events_after"], {"seq": seq, "limit": limit}))

    def last_seq(self, tx: Transaction) -> int:
        return int(tx.rows(self._sql["last_event"], {})[0][0])

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        """Delete events past their retention time, oldest first."""
        return tx.run(self._sql["forget_events"], {"older_than": older_than_us, "limit": limit})


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A row of the `event` table."""

    seq: int
    at: datetime
    kind: str
    subject: str
    who: str
    why: str
    data: dict[str, Any]


def commit_by_hand(database: Database, act: Callable[[Transaction], T]) -> T:
    """Make a person's change in a transaction of its own, together with what `alongside` has asked for."""
    with database.transaction() as tx:
        result = act(tx)
        if (also := _also.get()) is not None:
            also(tx)
        crash.here(CrashPoint.OPERATE_BEFORE_COMMIT)
    crash.here(CrashPoint.OPERATE_AFTER_COMMIT)
    return result


@contextmanager
def alongside(also: Callable[[Transaction], None]) -> Iterator[None]:
    """Run `also` in the transaction of every change by hand in this block; an error in it undoes both."""
    token = _also.set(also)
    try:
        yield
    finally:
        _also.reset(token)


def check_who(who: str) -> str:
    """The name; raises `BadName` when it is empty."""
    if not who.strip():
        raise BadName("a change by hand needs the name of the person who makes it")
    return who


def check_why(why: str) -> str:
    """The reason; raises `BadValue` when it is empty."""
    if not why.strip():
        raise BadValue("a change by hand needs a reason: why")
    return why


def _stored(row: Row) -> StoredEvent:
    seq, at, kind, subject, who, why, data = row
    return StoredEvent(seq, to_datetime(at), kind, subject, who, why, json.loads(data))
