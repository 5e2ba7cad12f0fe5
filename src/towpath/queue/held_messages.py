"""Messages that actors hold: moved by their ids, many at once, by the actors' engine, which knows whose they are.

They lie in inboxes whose names begin with `actor:`. No inbox claims them, and the caretaker does not free them: an
actor's host does, by what the actor's states declare.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.db.database import storable
from towpath.queue.model import Message
from towpath.queue.states import MessageState

LONGEST_REASON = 8_000
_COLUMNS = (
    "id", "related_id", "audit_id", "inbox", "function", "payload", "headers", "state", "owner", "owner_tick",
    "attempts", "deliver_after", "created_at", "updated_at",
)  # fmt: skip


class HeldMessages:
    """Moves them inside a transaction that the caller opens. What is not as expected is left alone and not returned."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.queue", "held", database.dialect, fragments="messages")

    def has_arrivals(self, tx: Transaction, actors: Collection[str]) -> bool:
        """Whether messages have come for these actors that no engine has looked at."""
        return bool(tx.rows(self._sql["has_arrivals"], {"actors": _json(actors), "limit": 1}))

    def arrivals(self, tx: Transaction, actors: Collection[str], limit: int) -> list[Message]:
        """Messages that have come for these actors and no engine has looked at, the oldest first."""
        params = {"actors": _json(actors), "limit": limit}
        return [Message.from_row(row) for row in tx.rows(self._sql["arrivals"], params)]

    def read(self, tx: Transaction, ids: Collection[str]) -> dict[str, Message]:
        rows = tx.rows(self._sql["read_held"], {"ids": _json(ids)})
        return {message.id: message for message in map(Message.from_row, rows)}

    def insert(self, tx: Transaction, heads: Sequence[Head], now_us: int) -> None:
        if heads:
            tx.insert_many("message", _COLUMNS, (_row(head, now_us) for head in heads))

    def claim(self, tx: Transaction, ids: Collection[str], owner: str, tick: int) -> dict[str, Message]:
        rows = tx.rows(self._sql["claim_held"], {"ids": _json(ids), "owner": owner, "tick": tick})
        return {message.id: message for message in map(Message.from_row, rows)}

    def hold(self, tx: Transaction, ids: Collection[str]) -> None:
        """Mark messages that start actors as held until the run ends; nothing else touches them meanwhile."""
        if ids:
            tx.run(self._sql["hold_starts"], {"ids": _json(ids)})

    def finish(self, tx: Transaction, ids: Collection[str], owner: str) -> set[str]:
        """Finish these messages; returns those that the owner still had."""
        if not ids:
            return set()
        return {row[0] for row in tx.rows(self._sql["finish_held"], {"ids": _json(ids), "owner": owner})}

    def end(self, tx: Transaction, endings: Sequence[Ending]) -> dict[str, str | None]:
        """End these messages; returns the reply inbox of each one that was ended."""
        if not endings:
            return {}
        rows = [
            [each.id, each.state, None if each.reason is None else _short(each.reason), each.owner] for each in endings
        ]
        return dict(tx.rows(self._sql["end_held"], {"rows": json.dumps(rows)}))

    def wait_again(self, tx: Transaction, ids: Collection[str], due_us: int) -> None:
        tx.rows(self._sql["wait_again"], {"ids": _json(ids), "due_us": due_us})

    def forget(self, tx: Transaction, message_id: str, function: str) -> None:
        """Delete a message that is done, if it has that function and is not the newest of all."""
        tx.run(self._sql["forget_held"], {"id": message_id, "function": function})

    def take(self, tx: Transaction, ids: Collection[str]) -> None:
        tx.run(self._sql["take_arrived"], {"ids": _json(ids), "owner": "towpath"})

    def answered(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Which of these have an answer, or will never have one."""
        return {row[0] for row in tx.rows(self._sql["answered"], {"ids": _json(ids)})}


class Head(NamedTuple):
    """A message to be written that says what comes next in its inbox: claimed already, or due at a time."""

    id: str
    related_id: str
    inbox: str
    function: str
    payload_json: str
    headers_json: str = "{}"
    claimed_by: tuple[str, int] | None = None  # owner and tick
    due_us: int | None = None


class Ending(NamedTuple):
    """The end of a message: whoever owns it, or only if `owner` does."""

    id: str
    state: MessageState
    reason: str | None
    owner: str | None = None


def _row(head: Head, now: int) -> tuple[Any, ...]:
    owner, tick = head.claimed_by or (None, None)
    is_claimed = owner is not None
    return (
        head.id,
        head.related_id,
        head.related_id,
        head.inbox,
        head.function,
        head.payload_json,
        head.headers_json,
        MessageState.ACK if is_claimed else MessageState.NEW,
        owner,
        tick,
        1 if is_claimed else 0,
        head.due_us,
        now,
        now,
    )


def _short(reason: str) -> str:
    """The end of a trace says more than its beginning."""
    text = storable(reason)
    return text if len(text) <= LONGEST_REASON else f"…{text[-LONGEST_REASON:]}"


def _json(ids: Collection[str]) -> str:
    return json.dumps(sorted(ids))
