"""Reading the queue as people do: which inboxes, which messages, what belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from towpath.clock import to_datetime
from towpath.db import Queries
from towpath.queue.message import Message
from towpath.queue.parts import Parts
from towpath.queue.payload import check_id
from towpath.queue.state import MessageState, OnOwnerDeath

MOST_RELATIVES = 500
PAGE = 50


@dataclass(slots=True)
class InboxCounts:
    """One inbox and how many messages it has in each state."""

    name: str
    on_owner_death: OnOwnerDeath
    max_attempts: int
    counts: dict[MessageState, int] = field(default_factory=dict)
    oldest_new: datetime | None = None


class Browser:
    """Looks and never touches."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sql = Queries("towpath.queue", "messages", parts.database.dialect)

    def inboxes(self) -> list[InboxCounts]:
        found: dict[str, InboxCounts] = {}
        with self._parts.database.read() as tx:
            rows = tx.rows(self._sql["inbox_counts"], {})
        for name, policy, max_attempts, state, count, oldest in rows:
            inbox = found.setdefault(name, InboxCounts(name, OnOwnerDeath(policy), max_attempts))
            if state is not None:
                inbox.counts[MessageState(state)] = count
                if state == MessageState.NEW:
                    inbox.oldest_new = to_datetime(oldest)
        return list(found.values())

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
        """The newest first. The next page starts `before` the `seq` of the last one."""
        with self._parts.database.read() as tx:
            return self._parts.messages.page(
                tx, limit=limit, before=before, inbox=inbox, state=state, function=function, owner=owner
            )

    def message(self, message_id: str) -> Message:
        with self._parts.database.read() as tx:
            return self._parts.messages.read(tx, check_id(message_id))

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
