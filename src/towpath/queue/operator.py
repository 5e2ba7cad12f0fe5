"""What a person may do to the queue. Every change leaves an event with who, what and why, in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from towpath.core.clock import to_micros
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.errors import IllegalMove, NoReplyExpected
from towpath.queue.inbox import answer, answer_with_failure
from towpath.queue.janitor import Caretaker, Janitor
from towpath.queue.model import Draft, Message
from towpath.queue.outbox import Options, Outbox, reply_inbox
from towpath.queue.payload import check_id, headers_to_json, new_id, to_json
from towpath.queue.states import BY_HAND, MOVES, MessageMove, MessageState
from towpath.queue.store import QueueContext

OUTBOX = "operator"  # where answers to operators come


class Operator:
    """Changes to the queue in the name of one person."""

    def __init__(self, parts: QueueContext, who: str) -> None:
        self.who = check_who(who)
        self._parts = parts

    def send(
        self,
        inbox: str,
        function: str,
        payload: Any,
        why: str,
        *,
        headers: Mapping[str, Any] | None = None,
        delay_s: float | None = None,
        ttl_s: float | None = None,
        reply: bool = False,
        id: str | None = None,
    ) -> str:
        """Send a message by hand; with `reply` an answer is expected. One with an `id` is sent once."""
        outbox = Outbox(self._parts, OUTBOX)
        send = outbox.send if reply else outbox.notice
        options: Options = {"headers": headers, "delay_s": delay_s, "ttl_s": ttl_s, "message_id": id}

        def act(tx: Transaction) -> str:
            message_id = send(inbox, function, payload, tx=tx, **options)
            self._record(tx, EventKind.MESSAGE_SENT_BY_HAND, message_id, why, inbox=inbox, function=function)
            return message_id

        return commit_by_hand(self._parts.database, act)

    def copy(self, message_id: str, why: str, *, payload: Any = ..., id: str | None = None) -> str:
        """Send the same message anew, as it is stored or with another payload; returns the id of the new one.

        It belongs to the old one, and starts over: without delay, with the whole time to live. If an answer was
        expected of the old one, the answer to this comes to the operators.
        """
        message_id, limit = check_id(message_id), self._parts.settings.max_payload_bytes

        def act(tx: Transaction) -> str:
            message = self._parts.messages.read(tx, message_id)
            draft = Draft(
                new_id() if id is None else check_id(id),
                message.inbox,
                message.function,
                message.payload_json if payload is ... else to_json(payload, limit),
                message.headers_json,
                reply_to=None if message.reply_to is None else reply_inbox(OUTBOX),
                audit_id=message.id,
                ttl_s=message.ttl_s,
            )
            self._parts.inboxes.check_known(draft.inbox, tx)
            if draft.reply_to is not None:
                self._parts.inboxes.register_for_replies(tx, draft.reply_to)
            self._parts.messages.insert(tx, draft)
            self._parts.ring_after(tx, draft.inbox)
            data = {"inbox": draft.inbox, "function": draft.function, "copy_of": message.id}
            self._record(tx, EventKind.MESSAGE_SENT_BY_HAND, draft.id, why, **data)
            return draft.id

        return commit_by_hand(self._parts.database, act)

    def reply(self, message_id: str, payload: Any, why: str) -> None:
        """Answer a request in its handler's place. A handler that is at work on it will find its claim lost."""
        message_id = check_id(message_id)

        def act(tx: Transaction) -> None:
            message = self._parts.messages.read(tx, message_id)
            if message.reply_to is None:
                raise NoReplyExpected(f"message {message_id} is a notice: its sender expects no answer")
            self._parts.messages.take(tx, message_id, f"operator:{self.who}")
            self._parts.messages.move(tx, message_id, MessageMove.FINISH, f"answered by {self.who}: {why}")
            answer(self._parts, tx, message_id, message.reply_to, payload)
            self._record(
                tx, EventKind.MESSAGE_ANSWERED_BY_HAND, message_id, why, was=message.state, owner=message.owner
            )

        commit_by_hand(self._parts.database, act)

    def edit(
        self,
        message_id: str,
        why: str,
        *,
        payload: Any = ...,
        headers: Mapping[str, Any] | None = None,
        seen: Message | None = None,
        seen_at: datetime | None = None,
    ) -> None:
        """Change the payload or headers of a waiting message; refused when someone was faster since `seen`.

        A caller that no longer has the message it saw gives `seen_at`: the `updated_at` that it had.
        """
        message_id = check_id(message_id)
        limit = self._parts.settings.max_payload_bytes

        def act(tx: Transaction) -> None:
            message = seen or self._parts.messages.read(tx, message_id)
            if seen_at is not None:
                message = replace(message, updated_us=to_micros(seen_at))
            payload_json = message.payload_json if payload is ... else to_json(payload, limit)
            headers_json = message.headers_json if headers is None else headers_to_json(headers, limit)
            self._parts.messages.edit(tx, message, payload_json, headers_json)
            before = {"payload_before": message.payload_json, "headers_before": message.headers_json}
            self._record(tx, EventKind.MESSAGE_EDITED, message_id, why, **before)

        commit_by_hand(self._parts.database, act)

    def set_state(self, message_id: str, state: MessageState, why: str) -> None:
        """Move a message by hand, if its state allows it."""
        message_id = check_id(message_id)

        def act(tx: Transaction) -> None:
            message = self._parts.messages.read(tx, message_id)
            move = BY_HAND.get(state)
            if move is None or message.state not in MOVES[move].sources:
                raise IllegalMove(message_id, message.state, f"setting it to {state} by hand", _sources(move))
            if state is MessageState.OK and message.expects_answer:
                raise IllegalMove(
                    message_id, message.state, "setting a request to OK without an answer (use reply)", ()
                )
            whom = self._parts.messages.move(tx, message_id, move, f"set to {state} by {self.who}: {why}")
            if state is MessageState.ERR and message.reply_to is not None:
                answer_with_failure(self._parts, tx, message_id, message.reply_to, f"failed by {self.who}: {why}")
            self._parts.ring_after(tx, whom)
            self._record(
                tx, EventKind.MESSAGE_MOVED_BY_HAND, message_id, why, was=message.state, now=state, owner=message.owner
            )

        commit_by_hand(self._parts.database, act)

    def reap(self, why: str) -> int:
        """Let the messages die whose time ran out, now instead of in a moment; returns how many."""
        check_why(why)
        count = Caretaker(self._parts).reap()
        self._note(EventKind.QUEUE_REAPED_BY_HAND, why, expired=count)
        return count

    def clean(self, why: str) -> dict[str, int]:
        """Delete what is past its retention time, now instead of in a while; returns how much of what."""
        check_why(why)
        done = Janitor(self._parts).clean()
        self._note(EventKind.QUEUE_CLEANED_BY_HAND, why, **done)
        return done

    def _note(self, kind: EventKind, why: str, **data: Any) -> None:
        commit_by_hand(self._parts.database, lambda tx: self._record(tx, kind, "queue", why, **data))

    def _record(self, tx: Transaction, kind: EventKind, message_id: str, why: str, **data: Any) -> None:
        self._parts.event_log.record(tx, Event(kind, message_id, self.who, check_why(why), data))


def _sources(move: MessageMove | None) -> tuple[MessageState, ...]:
    return MOVES[move].sources if move else ()
