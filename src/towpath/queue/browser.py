"""Reading the queue as people do: which inboxes, which messages, what belongs together.

The messages of an inbox are counted in each state without counting millions: what waits, is being worked on or has
failed is counted by index, up to a limit. What is done has no index: of that the newest messages are counted. Where
there are more than were counted, `more` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.event_log import StoredEvent
from towpath.db.paging import SearchPage
from towpath.queue.model import Message, MessageSelection
from towpath.queue.payload import check_id
from towpath.queue.states import MessageState, OnOwnerDeath
from towpath.queue.store import QueueContext

MOST_COUNTED = 1_000  # of one state in one inbox
MOST_DONE_LOOKED_AT = 20_000  # of the newest messages, in all inboxes together
MOST_RELATIVES = 500
MOST_EVENTS = 50
PAGE = 50
NO_LIMIT = 1 << 62


class QueueBrowser:
    """Reads the queue and never changes it."""

    def __init__(self, parts: QueueContext) -> None:
        self._parts = parts
        self._sql = Queries("towpath.queue", "messages", parts.database.dialect)
        self._counter = InboxCounter(parts.database)

    def inboxes(
        self, *, limit: int | None = None, after: str | None = None, of_actors: bool | None = None
    ) -> list[InboxCounts]:
        """Inboxes by name, from behind `after` on; all, or only those of actors, or only the others."""
        with self._parts.database.read() as tx:
            return self._counter.count(tx, limit=limit, after=after, of_actors=of_actors)

    def counts(self, inbox: str) -> dict[MessageState, int]:
        """All messages of one inbox by state, to the last one: slow where there are millions."""
        with self._parts.database.read() as tx:
            return self._counter.exactly(tx, inbox)

    def check_inbox(self, name: str) -> None:
        """Raise `UnknownInbox` unless the name is registered: an empty list would hide a mistake."""
        self._parts.inboxes.check_known(name, None)

    def page(
        self,
        *,
        limit: int = PAGE,
        before: int | None = None,
        inbox: str | None = None,
        state: MessageState | None = None,
        function: str | None = None,
        owner: str | None = None,
    ) -> list[Message]:
        """The newest first, all that were asked for. The next page starts `before` the `seq` of the last one."""
        with self._parts.database.read() as tx:
            return self._parts.messages.page(
                tx, limit=limit, before=before, inbox=inbox, state=state, function=function, owner=owner
            )

    def search(
        self, selection: MessageSelection, *, limit: int = PAGE, before: int | None = None
    ) -> SearchPage[Message]:
        """The newest first, as many as are found in a moment: for people. A page may be short and have a `next`."""
        with self._parts.database.read() as tx:
            return self._parts.messages.pages.search(tx, selection, limit=limit, before=before)

    def message(self, message_id: str) -> Message:
        with self._parts.database.read() as tx:
            return self._parts.messages.read(tx, check_id(message_id))

    def view(self, message_id: str) -> MessageView:
        """One message with what people ask next."""
        message = self.message(message_id)
        with self._parts.database.read() as tx:
            events = self._parts.event_log.page(tx, limit=MOST_EVENTS, subject=message.id)
        return MessageView(message, self.tree(message.id), events)

    def tree(self, message_id: str) -> list[Message]:
        """All messages that are related to this one, directly or through others, oldest first; at most 500."""
        ids = {check_id(message_id)}
        with self._parts.database.read() as tx:
            while True:
                found = self._parts.messages.relatives(tx, ids, MOST_RELATIVES)
                named = {i for m in found for i in (m.id, m.related_id, m.audit_id) if i is not None}
                if named <= ids or len(found) >= MOST_RELATIVES:
                    return found
                ids |= named

    def newer(self, after_seq: int, inbox: str | None = None, limit: int = 500) -> Iterator[Message]:
        """What was sent after a given message, oldest first."""
        with self._parts.database.read() as tx:
            rows = tx.rows(self._sql["messages_after"], {"after": after_seq, "inbox": inbox, "limit": limit})
        return map(Message.from_row, rows)

    def last_seq(self) -> int:
        with self._parts.database.read() as tx:
            return int(tx.rows(self._sql["last_message"], {})[0][0])


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
        found = [_counts_of_row(row) for row in tx.rows(self._sql["count_inboxes"], given)]
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
                inbox.counts[MessageState.OK] = done[inbox.name]
            if has_more:
                inbox.more |= {MessageState.OK}


@dataclass(slots=True)
class InboxCounts:
    """One inbox and how many messages it has in each state."""

    name: str
    on_owner_death: OnOwnerDeath
    max_attempts: int
    counts: dict[MessageState, int] = field(default_factory=dict)
    more: frozenset[MessageState] = frozenset()  # of which there are more than counted, or may be
    oldest_new: datetime | None = None  # when the message that is claimed next was sent


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message, all that belongs together with it, the oldest first, and what happened to it, the newest first."""

    message: Message
    tree: list[Message]
    events: list[StoredEvent]


def _counts_of_row(row: Row) -> InboxCounts:
    name, on_owner_death, max_attempts, ready, due, claimed, failed, dead, *oldest = row
    counts = {
        MessageState.NEW: ready + due,
        MessageState.ACK: claimed,
        MessageState.ERR: failed,
        MessageState.DEAD: dead,
    }
    waits_since = [at for at in oldest if at is not None]
    return InboxCounts(
        name,
        OnOwnerDeath(on_owner_death),
        max_attempts,
        {state: min(count, MOST_COUNTED) for state, count in counts.items() if count},
        frozenset(state for state, count in counts.items() if count > MOST_COUNTED),
        to_datetime(min(waits_since)) if waits_since else None,
    )
