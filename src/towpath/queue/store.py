"""The tables `message` and `inbox`, and the context that every part of the queue is given.

Every move of a message is one guarded statement: no row means that the move was illegal, and raises.

Pages of messages are fast however many there are. Indexes give, in turn, what has failed or waits or is being worked
on, and all that is in an inbox of Towpath's own; there is none for what is done in the others, since it would cost
every message a page. Whatever else is asked for is looked for among these, or among all (`db/paging.py`). Nor is there
one for times: messages are numbered in the order in which they are sent, so that the number of a time is found by
halving.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice, repeat
from typing import Any

from towpath.core.clock import MICROS, to_micros
from towpath.core.events import Events
from towpath.db import Database, Queries, Transaction
from towpath.db.database import storable
from towpath.db.event_log import EventLog
from towpath.db.paging import LAST_SEQ, LOOK_S, SLACK_US, SearchPage, cut, search
from towpath.db.processes import Process, ProcessStore
from towpath.errors import ChangedMeanwhile, DuplicateMessage, IllegalMove, RequestDied, UnknownInbox, UnknownMessage
from towpath.queue.model import Draft, Message, MessageSelection
from towpath.queue.payload import ACTORS
from towpath.queue.states import MOVES, TERMINAL, MessageMove, MessageState, OnOwnerDeath
from towpath.settings import QueueSettings

_BATCH_COLUMNS = ("id", "payload", "inbox", "function", "reply_to", "audit_id", "created_at", "updated_at")
_ANSWER_COLUMNS = (
    "id", "related_id", "audit_id", "inbox", "function", "payload", "ttl_s", "expires_at", "created_at", "updated_at",
)  # fmt: skip
# What follows the payload in a draft of the most usual kind: written by a shorter statement, which is faster.
_PLAIN = Draft("", "", "", "")[4:]


@dataclass(frozen=True, slots=True)
class QueueContext:
    """What every part of the queue is given. The `Queue` makes it once."""

    database: Database
    settings: QueueSettings
    events: Events
    event_log: EventLog
    messages: MessageStore
    inboxes: InboxStore
    processes: ProcessStore
    process: Callable[[], Process]  # called when a process row is needed: only processes that claim have one

    def ring_after(self, tx: Transaction, name: str | None) -> None:
        """Wake all who wait for the name when the transaction has committed."""
        if name is not None:
            tx.after_commit(lambda: self.database.wakeups.ring((name,)))


class MessageStore:
    """Reads and moves messages inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.queue", "messages", database.dialect)
        self.pages = MessagePages(database)

    # Sending

    def insert(self, tx: Transaction, draft: Draft) -> None:
        params: dict[str, Any] = {"id": draft.id, "inbox": draft.inbox, "function": draft.function}
        params["payload"] = draft.payload_json
        query = "insert_plain"
        if draft[4:] != _PLAIN:
            query = "insert_message"
            params |= draft._asdict() | {"headers": draft.headers_json, "expiry_us": _expiry_us(draft)}
        if not tx.run(self._sql[query], params):
            raise DuplicateMessage(f"message {draft.id} was sent before; it is in the queue once")

    def insert_many(
        self,
        tx: Transaction,
        inbox: str,
        function: str,
        ids: Sequence[str],
        payloads: Sequence[str],
        reply_to: str | None,
        audit_id: str | None,
    ) -> None:
        """Send many messages that differ only in their payload."""
        now = self._database.now()
        each_alike = map(repeat, (inbox, function, reply_to, audit_id, now, now))
        tx.insert_many("message", _BATCH_COLUMNS, zip(ids, payloads, *each_alike, strict=False))

    def insert_answers(
        self, tx: Transaction, function: str, asked: Iterable[tuple[str, str, str]], payload: str, ttl_s: float
    ) -> None:
        """The same answer to many requests; of each its own id, the request's id and the inbox for the answer."""
        now = self._database.now()
        expires = now + int(ttl_s * MICROS)
        rows = ((id_, to, to, inbox, function, payload, ttl_s, expires, now, now) for id_, to, inbox in asked)
        tx.insert_many("message", _ANSWER_COLUMNS, rows)

    # Claiming, and what may follow a claim

    def claim(self, tx: Transaction, inbox: str, owner: str, tick: int, limit: int) -> list[Message]:
        params = {"inbox": inbox, "owner": owner, "tick": tick, "limit": limit}
        return _in_order(tx.rows(self._sql["claim_messages"], params))

    def claim_one(self, tx: Transaction, inbox: str, owner: str, tick: int) -> list[Message]:
        """The oldest message that is not delayed, or none."""
        params = {"inbox": inbox, "owner": owner, "tick": tick}
        return _in_order(tx.rows(self._sql["claim_one"], params))

    def claimed_by_tick(self, tx: Transaction, inbox: str, owner: str, tick: int) -> list[Message]:
        """The messages of a claim whose answer was lost."""
        return _in_order(tx.rows(self._sql["claimed_by_tick"], {"inbox": inbox, "owner": owner, "tick": tick}))

    def finish(self, tx: Transaction, messages: Sequence[Message]) -> set[str]:
        """ACK to OK. Returns the ids of lost claims, as `fail` and `release` do, and leaves their messages alone."""
        if len(messages) == 1:
            [message] = messages
            params = {"owner": message.owner, "tick": message.owner_tick, "seq": message.seq}
            return set() if tx.run(self._sql["finish_claim"], params) else {message.id}
        return self._end_claims(tx, "finish_claims", messages, {})

    def fail(self, tx: Transaction, messages: Sequence[Message], reason: str) -> set[str]:
        return self._end_claims(tx, "fail_claims", messages, {"reason": reason})

    def release(self, tx: Transaction, messages: Sequence[Message], delay_us: int | None) -> set[str]:
        return self._end_claims(tx, "release_claims", messages, {"delay_us": delay_us})

    def _end_claims(self, tx: Transaction, query: str, messages: Sequence[Message], params: dict[str, Any]) -> set[str]:
        by_claim: dict[tuple[str | None, int | None], list[Message]] = defaultdict(list)
        for message in messages:
            by_claim[message.owner, message.owner_tick].append(message)
        lost: set[str] = set()
        for (owner, tick), claimed in by_claim.items():
            which = {"owner": owner, "tick": tick, "seqs": _seqs(message.seq for message in claimed)}
            moved = {row[0] for row in tx.rows(self._sql[query], {**which, **params})}
            lost |= {message.id for message in claimed if message.seq not in moved}
        return lost

    def already_ended(self, tx: Transaction, message: Message, state: MessageState) -> bool:
        """Whether this very claim has brought the message to that end: asked when the answer to the move was lost."""
        which = {"owner": message.owner, "tick": message.owner_tick, "seqs": _seqs([message.seq]), "state": state}
        return bool(tx.rows(self._sql["ended_by_tick"], which))

    # The dead

    def owners_with_claims(self, tx: Transaction) -> set[str]:
        return {row[0] for row in tx.rows(self._sql["owners_with_claims"], {})}

    def claims_of(self, tx: Transaction, owner: str, limit: int) -> list[HeldClaim]:
        rows = tx.rows(self._sql["claims_of_owner"], {"owner": owner, "limit": limit})
        return [
            HeldClaim(seq, id_, inbox, reply_to, failures, OnOwnerDeath(policy), most)
            for seq, id_, inbox, reply_to, failures, policy, most in rows
        ]

    def free(
        self, tx: Transaction, owner: str, move: MessageMove, claims: Sequence[HeldClaim], reason: str
    ) -> list[HeldClaim]:
        """Apply one of the moves that follow an owner's death; returns those that were still its claims."""
        query = {
            MessageMove.FREE: "free_claims",
            MessageMove.FAIL: "fail_claims",
            MessageMove.GIVE_UP: "give_up_claims",
        }[move]
        params = {"owner": owner, "seqs": _seqs(c.seq for c in claims), "reason": reason, "tick": None}
        moved = {row[0] for row in tx.rows(self._sql[query], params)}
        return [claim for claim in claims if claim.seq in moved]

    # Time

    def expire(self, tx: Transaction, limit: int) -> list[Expired]:
        return [Expired(*row) for row in tx.rows(self._sql["expire_messages"], {"limit": limit})]

    def next_span(self, tx: Transaction, after: int, limit: int) -> tuple[int, int] | None:
        """The last `seq` of the next `limit` messages, and when the oldest of them was sent; none at the end."""
        upto, oldest_us = tx.rows(self._sql["next_span"], {"after": after, "limit": limit})[0]
        return None if upto is None else (upto, oldest_us)

    def delete_in_span(
        self, tx: Transaction, after: int, upto: int, before_us: Mapping[MessageState, int]
    ) -> Counter[str]:
        """Delete what ended before the time given for its state; returns how many of each."""
        params = {"after": after, "upto": upto}
        params |= {f"{state.lower()}_before": before_us.get(state, 0) for state in TERMINAL}
        return Counter(row[0] for row in tx.rows(self._sql["delete_in_span"], params))

    def next_due_us(self, tx: Transaction, inbox: str) -> int | None:
        due: int | None = tx.rows(self._sql["next_due"], {"inbox": inbox})[0][0]
        return due

    # Moves of one message by a person or by its sender

    def move(self, tx: Transaction, message_id: str, move: MessageMove, reason: str) -> str | None:
        """Make one move; returns the inbox to wake: the reply inbox, or after a requeue the message's own."""
        query = {
            MessageMove.KILL: "kill_message",
            MessageMove.FAIL: "fail_message",
            MessageMove.FINISH: "finish_message",
            MessageMove.REQUEUE: "requeue_message",
        }[move]
        rows = tx.rows(self._sql[query], {"id": message_id, "reason": storable(reason)})
        if not rows:
            raise IllegalMove(message_id, self.read(tx, message_id).state, move, MOVES[move].sources)
        whom: str | None = rows[0][0]
        return whom

    def take(self, tx: Transaction, message_id: str, owner: str) -> None:
        """Claim one message for a person or the reader of an answer; it is ended in the same transaction."""
        if not tx.rows(self._sql["take_message"], {"id": message_id, "owner": owner}):
            raise IllegalMove(
                message_id, self.read(tx, message_id).state, "answering it", MOVES[MessageMove.KILL].sources
            )

    def take_answer(self, tx: Transaction, message_id: str, owner: str) -> None:
        """Claim and finish an answer at once. Another waiter may have done so already; both get it."""
        tx.run(self._sql["take_answer"], {"id": message_id, "owner": owner})

    def edit(self, tx: Transaction, seen: Message, payload_json: str, headers_json: str) -> None:
        """Change a waiting message, unless somebody claimed or changed it since it was read."""
        params = {"id": seen.id, "payload": payload_json, "headers": headers_json, "seen_at": seen.updated_us}
        if not tx.rows(self._sql["edit_message"], params):
            found = self.read(tx, seen.id)
            if found.state is MessageState.NEW:
                raise ChangedMeanwhile(seen.id)
            raise IllegalMove(seen.id, found.state, "editing", [MessageState.NEW])

    # Reading

    def read(self, tx: Transaction, message_id: str) -> Message:
        rows = tx.rows(self._sql["read_message"], {"id": message_id})
        if not rows:
            raise UnknownMessage(message_id)
        return Message.from_row(rows[0])

    def outcome(self, tx: Transaction, message_id: str) -> RequestOutcome:
        rows = tx.rows(self._sql["read_answer"], {"id": message_id})
        if not rows:
            raise RequestDied(message_id, f"request {message_id} is not in the queue: never sent, or deleted")
        state, reason, expects_answer, answer_id, answer_json, answer_state = rows[0]
        return RequestOutcome(
            MessageState(state),
            reason,
            bool(expects_answer),
            answer_id,
            answer_json,
            MessageState(answer_state) if answer_state else None,
        )

    def eavesdrop(self, tx: Transaction, inbox: str, limit: int) -> list[Message]:
        return _in_order(tx.rows(self._sql["eavesdrop"], {"inbox": inbox, "limit": limit}))

    def newest_handled(self, tx: Transaction, inbox: str, limit: int) -> list[Message]:
        return _in_order(tx.rows(self._sql["newest_handled"], {"inbox": inbox, "limit": limit}))

    def page(
        self,
        tx: Transaction,
        *,
        limit: int,
        before: int | None = None,
        inbox: str | None = None,
        state: MessageState | None = None,
        function: str | None = None,
        owner: str | None = None,
    ) -> list[Message]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        return self.pages.page(tx, MessageSelection(inbox, state, function, owner), limit=limit, before=before)

    def relatives(self, tx: Transaction, ids: Iterable[str], limit: int) -> list[Message]:
        params = {"ids": json.dumps(sorted(ids)), "limit": limit}
        return _in_order(tx.rows(self._sql["relatives"], params))


class MessagePages:
    """Reads pages inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.queue", "pages", database.dialect, fragments="messages")

    def page(
        self, tx: Transaction, selection: MessageSelection, *, limit: int, before: int | None = None
    ) -> list[Message]:
        """The newest first, as many as asked for if there are that many, however long it takes."""
        return self._read(tx, selection, LAST_SEQ if before is None else before, 0, limit)

    def search(
        self,
        tx: Transaction,
        selection: MessageSelection,
        *,
        limit: int,
        before: int | None = None,
        look_s: float = LOOK_S,
    ) -> SearchPage[Message]:
        """The newest first, as many as are found in a moment: a page may be short and have a `next`."""
        top = LAST_SEQ if before is None else before
        if _is_indexed(selection):
            return cut(self._read_in_order(tx, selection, top, 0, limit + 1), limit)
        since, until = selection.since, selection.until
        return search(
            partial(self._read_in_order, tx, selection),
            partial(self._newest_below, tx),
            limit=limit,
            before=top if until is None else min(top, self._first_at(tx, to_micros(until) + SLACK_US)),
            lowest=0 if since is None else self._first_at(tx, to_micros(since) - SLACK_US),
            look_s=look_s,
        )

    def _read(self, tx: Transaction, selection: MessageSelection, before: int, floor: int, limit: int) -> list[Message]:
        given = {**_parameters(selection), "before": before, "floor": floor, "limit": limit}
        pages = [tx.rows(self._sql[f"page_{way}"], dict(given)) for way in _ways(selection)]
        return [Message.from_row(row) for row in islice(merge(*pages, key=lambda row: -int(row[0])), limit)]

    def _read_in_order(
        self, tx: Transaction, selection: MessageSelection, before: int, floor: int, limit: int
    ) -> list[Message]:
        """As `_read`, but with a plan that reads rows in their order and stops at the limit."""
        tx.run(self._sql["read_in_order"], {})
        found = self._read(tx, selection, before, floor, limit)
        tx.run(self._sql["read_as_usual"], {})
        return found

    def _newest_below(self, tx: Transaction, below: int) -> int | None:
        newest: int | None = tx.rows(self._sql["newest_below"], {"below": below})[0][0]
        return newest

    def _first_at(self, tx: Transaction, at_us: int) -> int:
        """The first `seq` of the messages that were sent at that time or later."""
        low, high = 0, (self._newest_below(tx, LAST_SEQ) or 0) + 1
        while low < high:
            middle = (low + high) // 2
            found = tx.rows(self._sql["first_from"], {"seq": middle})
            if found and found[0][1] < at_us:
                low = found[0][0] + 1
            else:
                high = middle
        return low


class InboxStore:
    """`inbox`: registers names with their policies, and refuses names that are not registered."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.queue", "inboxes", database.dialect)
        self._database = database
        self._seen: frozenset[str] = frozenset()  # a name stays true: only old instances' inboxes are deleted

    def register(self, tx: Transaction, name: str, on_owner_death: OnOwnerDeath, max_attempts: int) -> None:
        given = {"name": name, "on_owner_death": on_owner_death, "max_attempts": max_attempts}
        tx.run(self._sql["register_inbox"], given)

    def register_for_replies(self, tx: Transaction, name: str) -> None:
        tx.run(self._sql["register_reply_inbox"], {"name": name})

    def names(self, tx: Transaction) -> list[str]:
        return [row[0] for row in tx.rows(self._sql["inbox_names"], {})]

    def check_known(self, name: str, tx: Transaction | None) -> None:
        """Raise `UnknownInbox` unless the name is registered."""
        if name in self._seen:
            return
        if tx is not None:
            self._check(tx, name)  # not noted as seen: what an open transaction shows may yet be rolled back
            return
        with self._database.read() as reading:
            self._check(reading, name)
        self._seen |= {name}

    def _check(self, tx: Transaction, name: str) -> None:
        if not tx.rows(self._sql["is_inbox"], {"name": name}):
            raise UnknownInbox(name, self.names(tx))


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """How far a request has come."""

    state: MessageState
    reason: str | None
    expects_answer: bool
    answer_id: str | None
    answer_json: str | None
    answer_state: MessageState | None


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim of a dead owner, and the policy of its inbox."""

    seq: int
    id: str
    inbox: str
    reply_to: str | None
    failures: int
    on_owner_death: OnOwnerDeath
    max_attempts: int

    @property
    def move(self) -> MessageMove:
        match self.on_owner_death:
            case OnOwnerDeath.ERR:
                return MessageMove.FAIL
            case OnOwnerDeath.AGAIN if self.failures < self.max_attempts:
                return MessageMove.FREE
        return MessageMove.GIVE_UP


@dataclass(frozen=True, slots=True)
class Expired:
    """A message whose ttl ran out."""

    id: str
    inbox: str
    reply_to: str | None


def _ways(selection: MessageSelection) -> tuple[str, ...]:
    """The queries that together give everything selected, each in order and without overlap."""
    has_inbox = selection.inbox is not None
    match selection.state:
        case None if selection == MessageSelection():
            return ("as_it_comes",)
        case MessageState.ERR | MessageState.DEAD:
            return ("of_failed_in",) if has_inbox else ("of_failed",)
        case MessageState.ACK:
            return ("of_live_in",) if has_inbox else ("of_claimed",)
        case MessageState.NEW if has_inbox:
            return ("of_live_in", "of_due_in")
    return ("of_own_in",) if _is_own(selection.inbox) else ("of_all",)


def _is_own(inbox: str | None) -> bool:
    """Whether the index `message_own` covers this inbox."""
    return inbox is not None and (inbox.startswith((ACTORS, "notify:")) or inbox == "desk-rehearsals")


def _is_indexed(selection: MessageSelection) -> bool:
    """Whether those queries give exactly what is selected, so that nothing has to be searched for."""
    match _ways(selection):
        case ("of_all",):
            return False
        case ("of_claimed",):
            return True  # never more than there are workers
    return selection == MessageSelection(inbox=selection.inbox, state=selection.state)


def _parameters(selection: MessageSelection) -> dict[str, Any]:
    since, until = selection.since, selection.until
    return {
        "inbox": selection.inbox,
        "state": selection.state,
        "function": selection.function,
        "owner": selection.owner,
        "since": None if since is None else to_micros(since),
        "until": None if until is None else to_micros(until),
    }


def _expiry_us(draft: Draft) -> int | None:
    # The time to live starts when the message could first be taken.
    return None if draft.ttl_s is None else (draft.delay_us or 0) + int(draft.ttl_s * MICROS)


def _seqs(seqs: Iterable[int]) -> str:
    return f"[{','.join(map(str, seqs))}]"


def _in_order(rows: list[tuple[Any, ...]]) -> list[Message]:
    rows.sort()  # by seq, which is unique, so nothing behind it is compared
    return list(map(Message.from_row, rows))
