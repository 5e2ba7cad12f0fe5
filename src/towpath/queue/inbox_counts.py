"""How many messages each inbox has in each state, without counting millions.

What waits, is being worked on or has failed is counted by index, up to a limit. What is done has no index: of that the
newest messages are counted. Where there are more than were counted, `more` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from towpath.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.queue.state import MessageState, OnOwnerDeath

MOST_COUNTED = 1_000  # of one state in one inbox
MOST_DONE_LOOKED_AT = 20_000  # of the newest messages, in all inboxes together
NO_LIMIT = 1 << 62

_NEW, _ACK, _OK, _ERR, _DEAD = MessageState


@dataclass(slots=True)
class InboxCounts:
    """One inbox and how many messages it has in each state."""

    name: str
    on_owner_death: OnOwnerDeath
    max_attempts: int
    counts: dict[MessageState, int] = field(default_factory=dict)
    more: frozenset[MessageState] = frozenset()  # of which there are more than counted, or may be
    oldest_new: datetime | None = None  # when that was sent which comes next


class InboxCounter:
    """Counts inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.queue", "inbox_counts", database.dialect, fragments="messages")
        self._reading = Queries("towpath.queue", "pages", database.dialect, fragments="messages")

    def count(
        self, tx: Transaction, *, limit: int | None = None, after: str | None = None, of_actors: bool | None = None
    ) -> list[InboxCounts]:
        """Inboxes by name, from behind `after` on; all, or only those of actors, or only the others."""
        given = {
            "limit": NO_LIMIT if limit is None else limit,
            "after": after or "",
            "of_actors": None if of_actors is None else int(of_actors),
            "most": MOST_COUNTED + 1,
        }
        tx.run(self._reading["read_in_order"], {})
        found = [_counted(row) for row in tx.rows(self._sql["count_inboxes"], given)]
        self._add_done(tx, found)
        tx.run(self._reading["read_as_usual"], {})
        return found

    def exactly(self, tx: Transaction, inbox: str) -> dict[MessageState, int]:
        """All messages of one inbox, which reads them all."""
        rows = tx.rows(self._sql["counts_of_inbox"], {"inbox": inbox})
        return {MessageState(state): count for state, count in rows}

    def _add_done(self, tx: Transaction, found: list[InboxCounts]) -> None:
        rows = tx.rows(self._sql["count_done"], {"most": MOST_DONE_LOOKED_AT})
        done = {name: count for name, _, count in rows if count}
        has_more = sum(looked_at for _, looked_at, _ in rows) >= MOST_DONE_LOOKED_AT
        for inbox in found:
            if inbox.name in done:
                inbox.counts[_OK] = done[inbox.name]
            if has_more:
                inbox.more |= {_OK}


def _counted(row: Row) -> InboxCounts:
    name, on_owner_death, max_attempts, ready, due, claimed, failed, dead, *oldest = row
    counts = {_NEW: ready + due, _ACK: claimed, _ERR: failed, _DEAD: dead}
    waits_since = [at for at in oldest if at is not None]
    return InboxCounts(
        name,
        OnOwnerDeath(on_owner_death),
        max_attempts,
        {state: min(count, MOST_COUNTED) for state, count in counts.items() if count},
        frozenset(state for state, count in counts.items() if count > MOST_COUNTED),
        to_datetime(min(waits_since)) if waits_since else None,
    )
