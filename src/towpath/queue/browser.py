"""Reading the queue as people do: which inboxes, which messages, what belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from towpath.db import Queries
from towpath.db.event_log import StoredEvent
from towpath.db.searching import Found
from towpath.queue.inbox_counts import InboxCounter, InboxCounts
from towpath.queue.message import Message
from towpath.queue.parts import Parts
from towpath.queue.payload import check_id
from towpath.queue.selection import Selection
from towpath.queue.state import MessageState

MOST_RELATIVES = 500
MOST_EVENTS = 50
PAGE = 50


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message, all that belongs together with it, the oldest first, and what happened to it, the newest first."""

    message: Message
    tree: list[Message]
    events: list[StoredEvent]


class Browser:
    """Looks and never touches."""

    def __init__(self, parts: Parts) -> None:
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
        """Raise `UnknownInbox` unless somebody has registered the name: a list of nothing would hide the mistake."""
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

    def search(self, selection: Selection, *, limit: int = PAGE, before: int | None = None) -> Found[Message]:
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
