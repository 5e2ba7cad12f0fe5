"""Sending: notices, requests and the wait for their answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypedDict, Unpack

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.errors import AnswerTimeout, CommitUnknown, DatabaseError, DatabaseUnavailable, PartlySent, RequestDied
from towpath.queue.inbox import answer_with_failure
from towpath.queue.model import Answer, Draft, current_message_id
from towpath.queue.payload import check_id, check_name, check_seconds, headers_to_json, new_id, to_json
from towpath.queue.states import MOVES, TERMINAL, MessageMove, MessageState
from towpath.queue.store import QueueContext, RequestOutcome

# A write transaction on SQLite holds up every other writer: many messages go in several, each well under 250 ms.
MOST_PER_COMMIT = 2_000
MOST_BYTES_PER_COMMIT = 4 << 20


class Options(TypedDict, total=False):
    """Options of a message besides its payload."""

    headers: Mapping[str, Any] | None
    delay_s: float | None
    """It is not claimed before this many seconds have passed."""
    ttl_s: float | None
    """It is DEAD when nobody has claimed it this many seconds after it could be."""
    message_id: str | None
    """A UUID made by the sender: sending again with the same one is refused, so that it is safe to send again."""
    related_id: str | None
    """The message that this one belongs to."""


class Outbox:
    """Sends messages under a name. Any number of threads and processes may use the same name."""

    def __init__(self, parts: QueueContext, name: str) -> None:
        self.name = check_name(name, "outbox name")
        self._parts = parts
        self._reply_to = reply_inbox(name)
        self._has_reply_inbox = False

    def send(
        self,
        inbox: str,
        function: str,
        payload: Any = None,
        *,
        tx: Transaction | None = None,
        **options: Unpack[Options],
    ) -> str:
        """Send a request and return its id; the answer is fetched by `wait` or `poll`.

        With `tx` it is sent when, and only when, the caller's transaction commits.
        """
        draft = self._draft(inbox, function, payload, self._reply_to, tx, options)
        self._make_reply_inbox(tx)
        return self._write(draft, tx)

    def notice(
        self,
        inbox: str,
        function: str,
        payload: Any = None,
        *,
        tx: Transaction | None = None,
        **options: Unpack[Options],
    ) -> str:
        """Send a message to which no answer is expected, and return its id."""
        return self._write(self._draft(inbox, function, payload, None, tx, options), tx)

    def send_many(
        self, inbox: str, function: str, payloads: Iterable[Any], *, tx: Transaction | None = None
    ) -> list[str]:
        """Send many requests at once and return their ids. Without `tx` they go in several commits, in order."""
        texts = self._payload_texts(inbox, function, payloads, tx)
        self._make_reply_inbox(tx)
        return self._write_many(inbox, function, texts, self._reply_to, tx)

    def notice_many(
        self, inbox: str, function: str, payloads: Iterable[Any], *, tx: Transaction | None = None
    ) -> list[str]:
        """Send many notices at once and return their ids. Without `tx` they go in several commits, in order."""
        return self._write_many(inbox, function, self._payload_texts(inbox, function, payloads, tx), None, tx)

    def request(
        self, inbox: str, function: str, payload: Any = None, *, timeout_s: float | None = None, **options: Any
    ) -> Answer:
        """Send a request and wait for its answer; raises `AnswerTimeout` (it goes on) or `RequestDied`."""
        return self.wait(self.send(inbox, function, payload, **options), timeout_s)

    def wait(self, message_id: str, timeout_s: float | None = None) -> Answer:
        """Wait for the answer to a request, also one that was sent before a restart."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        wakeup = self._parts.database.wakeups.hang(self._reply_to)
        try:
            while True:
                wakeup.clear()
                answer = self._poll_patiently(message_id)
                if answer is not None:
                    return answer
                left_s = self._parts.settings.poll_s if deadline is None else deadline - time.monotonic()
                if left_s <= 0:
                    raise AnswerTimeout(
                        message_id, f"no answer to {message_id} within {timeout_s:g} s; it goes on: wait for it again"
                    )
                wakeup.wait(min(left_s, self._parts.settings.poll_s))
        finally:
            self._parts.database.wakeups.take_down(self._reply_to, wakeup)

    def poll(self, message_id: str) -> Answer | None:
        """The answer to a request if it is there. Raises `RequestDied` when none will come."""
        parts = self._parts
        with parts.database.glance() as tx:
            outcome = parts.messages.outcome(tx, check_id(message_id))
        if outcome.state not in TERMINAL:
            return None
        if outcome.state is MessageState.DEAD:
            raise RequestDied(message_id, f"request {message_id} is DEAD: {outcome.reason}")
        if outcome.answer_json is None:
            return Answer(outcome.state, self._instead_of_answer(message_id, outcome), message_id)
        if outcome.answer_id is not None and outcome.answer_state is MessageState.NEW:
            # The answer is here; if this note of it is lost, the answer is DEAD one day instead of OK.
            with suppress(DatabaseUnavailable, CommitUnknown), parts.database.single() as tx:
                parts.messages.take_answer(tx, outcome.answer_id, f"outbox:{self.name}")
        return Answer(outcome.state, json.loads(outcome.answer_json), message_id)

    def _instead_of_answer(self, message_id: str, outcome: RequestOutcome) -> Any:
        """The payload for a message that ended without an answer: a notice, or one whose answer was deleted."""
        if outcome.state is MessageState.ERR:
            return {"error": outcome.reason}
        if outcome.expects_answer:
            raise RequestDied(message_id, f"the answer to {message_id} was deleted after its retention time")
        return None

    def flag_bad(self, message_id: str, why: str) -> None:
        """Declare a message failed that is being worked on; the late finish of its worker will be refused."""
        self._flag(message_id, MessageMove.FAIL, why)

    def flag_dead(self, message_id: str, why: str) -> None:
        """Take a message back that is not needed any more, whether it still waits or is being worked on."""
        self._flag(message_id, MessageMove.KILL, why)

    def _flag(self, message_id: str, move: MessageMove, why: str) -> None:
        parts, message_id = self._parts, check_id(message_id)
        with parts.database.transaction() as tx:
            reply_to = parts.messages.move(tx, message_id, move, f"flagged by {self.name}: {why}")
            if reply_to is not None and move is MessageMove.FAIL:
                answer_with_failure(parts, tx, message_id, reply_to, why)
            flagged = Event(EventKind.MESSAGE_FLAGGED, message_id, self.name, why, {"state": MOVES[move].target})
            parts.event_log.record(tx, flagged)
            parts.ring_after(tx, reply_to)

    def _draft(
        self, inbox: str, function: str, payload: Any, reply_to: str | None, tx: Transaction | None, options: Options
    ) -> Draft:
        self._parts.inboxes.check_known(check_name(inbox, "inbox"), tx)
        limit = self._parts.settings.max_payload_bytes
        draft = Draft(
            options.get("message_id") or new_id(),
            inbox,
            check_name(function, "function"),
            to_json(payload, limit),
            reply_to=reply_to,
            audit_id=current_message_id(),
        )
        return _with_options(draft, options, limit) if options else draft

    def _write(self, draft: Draft, tx: Transaction | None) -> str:
        parts = self._parts
        if tx is not None:
            parts.messages.insert(tx, draft)
            parts.ring_after(tx, draft.inbox)
            return draft.id
        with parts.database.single() as own:
            parts.messages.insert(own, draft)
            crash.here(CrashPoint.SEND_BEFORE_COMMIT)
        crash.here(CrashPoint.SEND_AFTER_COMMIT)
        parts.database.wakeups.ring((draft.inbox,))
        return draft.id

    def _payload_texts(self, inbox: str, function: str, payloads: Iterable[Any], tx: Transaction | None) -> list[str]:
        """All payloads as JSON. If one cannot be sent, none is: they are checked before the first is written."""
        self._parts.inboxes.check_known(check_name(inbox, "inbox"), tx)
        check_name(function, "function")
        limit = self._parts.settings.max_payload_bytes
        return [to_json(payload, limit) for payload in payloads]

    def _write_many(
        self, inbox: str, function: str, payloads: list[str], reply_to: str | None, tx: Transaction | None
    ) -> list[str]:
        parts, audit_id = self._parts, current_message_id()
        ids = [new_id() for _ in payloads]
        if tx is not None:
            parts.messages.insert_many(tx, inbox, function, ids, payloads, reply_to, audit_id)
            parts.ring_after(tx, inbox)
            return ids
        for portion in _portions(payloads):
            with _partly_sent(ids, portion), parts.database.transaction() as own:
                parts.messages.insert_many(own, inbox, function, ids[portion], payloads[portion], reply_to, audit_id)
                crash.here(CrashPoint.SEND_BEFORE_COMMIT)
            crash.here(CrashPoint.SEND_AFTER_COMMIT)
            parts.database.wakeups.ring((inbox,))
        return ids

    def _poll_patiently(self, message_id: str) -> Answer | None:
        try:
            return self.poll(message_id)
        except DatabaseUnavailable:
            return None  # the request is on its way all the same; whoever waits has said for how long

    def _make_reply_inbox(self, tx: Transaction | None) -> None:
        if self._has_reply_inbox:
            return
        if tx is None:
            with self._parts.database.single() as own:
                self._parts.inboxes.register_for_replies(own, self._reply_to)
            self._has_reply_inbox = True
        else:
            self._parts.inboxes.register_for_replies(tx, self._reply_to)
            tx.after_commit(lambda: setattr(self, "_has_reply_inbox", True))


def reply_inbox(outbox: str) -> str:
    """Where the answers to an outbox arrive."""
    return f"{outbox}//reply"


def _with_options(draft: Draft, options: Options, max_bytes: int) -> Draft:
    """The draft with what the sender said about it, all of it checked."""
    related_id = options.get("related_id")
    delay_s = check_seconds(options.get("delay_s") or None, "delay_s")
    return draft._replace(
        id=check_id(draft.id),
        headers_json=headers_to_json(options.get("headers") or {}, max_bytes),
        related_id=None if related_id is None else check_id(related_id),
        delay_us=None if delay_s is None else int(delay_s * MICROS),
        ttl_s=check_seconds(options.get("ttl_s"), "ttl_s"),
    )


@contextmanager
def _partly_sent(ids: list[str], portion: slice) -> Iterator[None]:
    """When one portion of several fails, say which messages are in the queue all the same."""
    try:
        yield
    except DatabaseError as error:
        unknown = ids[portion] if isinstance(error, CommitUnknown) else []
        if portion.start == 0 and not unknown:
            raise  # nothing was written, and the error says so
        sent = ids[: portion.start]
        raise PartlySent(sent, unknown, len(ids) - len(sent) - len(unknown), error) from error


def _portions(payloads: list[str]) -> Iterator[slice]:
    """Slices that one short transaction can hold."""
    start = size = 0
    for end, payload in enumerate(payloads, 1):
        size += len(payload)
        if end - start == MOST_PER_COMMIT or size >= MOST_BYTES_PER_COMMIT:
            yield slice(start, end)
            start, size = end, 0
    if start < len(payloads):
        yield slice(start, len(payloads))
