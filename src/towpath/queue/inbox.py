"""Claiming messages, saying what became of them, and answering requests.

An answer is a new message to the asker's reply inbox, written in the transaction of the move that it tells of. The
inboxes that run handlers (`consumers`) are built on `Inbox`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.db import Transaction
from towpath.db.database import storable
from towpath.db.processes import Process
from towpath.errors import BadName, BadValue, ClaimLost, CommitUnknown
from towpath.queue.model import Draft, Message
from towpath.queue.payload import ACTORS, check_name, check_seconds, new_id, to_json
from towpath.queue.states import OnOwnerDeath
from towpath.queue.store import QueueContext

REPLY = "REPLY"
# An asker must learn of a failure also where payloads are kept very small.
FAILURE_BYTES = 16 << 10
LONGEST_FAILURE = 2_500  # characters, of which each takes six bytes at most
LONGEST_REASON = 2_000  # of a failed message
DEFAULT_MAX_ATTEMPTS = 5
DELAYED_EVERY_S = 0.01
MOST_PER_CLAIM = 5_000  # keeps a claim's transaction short on SQLite, where it holds up every other writer


class Inbox:
    """One inbox by name. Any number of processes may read from it; each message goes to one of them."""

    def __init__(
        self,
        parts: QueueContext,
        name: str,
        on_owner_death: OnOwnerDeath | str = OnOwnerDeath.AGAIN,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> None:
        self.name = check_name(name, "inbox name")
        if name.startswith(ACTORS):
            raise BadName(f"{name!r} is the inbox of an actor: what comes there is read by the actor alone")
        self._parts = parts
        if max_attempts < 1:
            raise BadValue(f"max_attempts={max_attempts} must be at least 1")
        try:
            policy = OnOwnerDeath(on_owner_death)
        except ValueError as error:
            raise BadValue(f"on_owner_death={on_owner_death!r} must be one of: {', '.join(OnOwnerDeath)}") from error
        # Claims whose answer was lost with the connection: they may hold messages, so they are asked about first.
        self._doubtful: dict[int, float] = {}  # tick → since when
        self._found: list[Message] = []  # what such claims were found to hold and nobody was given yet
        self._lock = threading.Lock()
        self._skip_delayed_until = 0.0
        with parts.database.single() as tx:
            parts.inboxes.register(tx, name, policy, max_attempts)

    def claim(self, limit: int = 1) -> list[Message]:
        """Take up to `limit` waiting messages, the oldest first. Nothing waits: an empty list."""
        process = self._claimant(limit)
        if self._doubtful or self._found:
            found = self._settle_doubts(limit)
            if found:
                return found
        for claim in self._ways(limit):
            with self._in_doubt_when_cut_off(process.next_tick()) as tick, self._parts.database.single() as tx:
                messages = claim(tx, process.id, tick)
                crash.here(CrashPoint.CLAIM_BEFORE_COMMIT)
            if messages:
                crash.here(CrashPoint.CLAIM_AFTER_COMMIT)
                return messages
        return []

    def exchange(self, done: Message | Sequence[Message], payload: Any = None, limit: int = 1) -> list[Message]:
        """Finish these and claim the next ones in one transaction: half the commits of one after the other.

        Raises `ClaimLost` as `finish` does; then nothing was claimed.
        """
        process = self._claimant(limit)
        batch = _batch(done)
        try:
            with self._in_doubt_when_cut_off(process.next_tick()) as tick, self._parts.database.transaction() as tx:
                lost = self._parts.messages.finish(tx, batch)
                if lost:
                    raise ClaimLost(lost)
                _answer_all(self._parts, tx, batch, payload)
                messages = next(filter(None, (claim(tx, process.id, tick) for claim in self._ways(limit))), [])
                crash.here(CrashPoint.EXCHANGE_BEFORE_COMMIT)
        except ClaimLost:
            self.finish(batch, payload)  # the others are finished all the same, and it raises again for the lost
            raise
        crash.here(CrashPoint.EXCHANGE_AFTER_COMMIT)
        return messages

    def finish(
        self, messages: Message | Sequence[Message], payload: Any = None, *, tx: Transaction | None = None
    ) -> None:
        """The messages are done. A request gets `payload` as its answer, in the same transaction.

        Raises `ClaimLost` for those that are not this process's any more. Without `tx` the others are finished all
        the same; with `tx` the caller's transaction should be rolled back, which letting the error pass does.
        """
        batch = _batch(messages)

        def move(tx: Transaction) -> set[str]:
            lost = self._parts.messages.finish(tx, batch)
            _answer_all(self._parts, tx, [m for m in batch if m.id not in lost], payload)
            crash.here(CrashPoint.FINISH_BEFORE_COMMIT)
            return lost

        self._end(batch, move, tx)

    def fail(self, messages: Message | Sequence[Message], reason: str, *, tx: Transaction | None = None) -> None:
        """The messages have failed. A request gets `{"error": reason}` as its answer."""
        batch = _batch(messages)
        reason = storable(reason)[:LONGEST_REASON]

        def move(tx: Transaction) -> set[str]:
            lost = self._parts.messages.fail(tx, batch, reason)
            if asked := _requests([m for m in batch if m.id not in lost]):
                _write(self._parts, tx, asked, _failure(self._parts, reason))
            crash.here(CrashPoint.FINISH_BEFORE_COMMIT)
            return lost

        self._end(batch, move, tx)

    def release(
        self, messages: Message | Sequence[Message], delay_s: float = 0.0, *, tx: Transaction | None = None
    ) -> None:
        """Give the messages back unworked: they wait again (after `delay_s`), and no attempt is burnt."""
        batch = _batch(messages)
        delay_us = int((check_seconds(delay_s, "delay_s") or 0) * MICROS) if delay_s else None

        def move(tx: Transaction) -> set[str]:
            lost = self._parts.messages.release(tx, batch, delay_us)
            self._parts.ring_after(tx, self.name)
            crash.here(CrashPoint.RELEASE_BEFORE_COMMIT)
            return lost

        self._end(batch, move, tx, CrashPoint.RELEASE_AFTER_COMMIT)

    def eavesdrop(self, limit: int = 1) -> list[Message]:
        """Look at what waits or is being worked on, the oldest first, without taking it."""
        with self._parts.database.glance() as tx:
            return self._parts.messages.eavesdrop(tx, self.name, limit)

    def last(self, limit: int) -> list[Message]:
        """The newest messages that were handled well, the oldest of them first."""
        with self._parts.database.glance() as tx:
            return self._parts.messages.newest_handled(tx, self.name, limit)

    def seconds_until_due(self) -> float | None:
        """How long until the next delayed message may be taken; none when there is none."""
        with self._parts.database.glance() as tx:
            due_us = self._parts.messages.next_due_us(tx, self.name)
        return None if due_us is None else max(0.0, (due_us - self._parts.database.now()) / MICROS)

    def _end(
        self,
        batch: list[Message],
        move: Callable[[Transaction], set[str]],
        tx: Transaction | None,
        after: CrashPoint = CrashPoint.FINISH_AFTER_COMMIT,
    ) -> None:
        if tx is not None:
            lost = move(tx)
        else:
            # Notices are ended by one statement; an answer makes it two, which need a transaction.
            needs_two = any(message.expects_answer for message in batch)
            database = self._parts.database
            with database.transaction() if needs_two else database.single() as own:
                own.after_commit(lambda: crash.here(after))  # committed, and nobody has been woken
                lost = move(own)
        if lost:
            raise ClaimLost(lost)

    def _ways(self, limit: int) -> Iterator[Callable[[Transaction, str, int], list[Message]]]:
        """How to claim: for one message first the cheap way, which does not look at the delayed ones.

        Those are looked at whenever it finds nothing, and every few milliseconds all the same.
        """
        store, name = self._parts.messages, self.name
        if limit == 1 and time.monotonic() < self._skip_delayed_until:
            yield lambda tx, owner, tick: store.claim_one(tx, name, owner, tick)
        self._skip_delayed_until = time.monotonic() + DELAYED_EVERY_S
        yield lambda tx, owner, tick: store.claim(tx, name, owner, tick, limit)

    def _claimant(self, limit: int) -> Process:
        if not 1 <= limit <= MOST_PER_CLAIM:
            raise BadValue(f"limit={limit} must be between 1 and {MOST_PER_CLAIM}")
        process = self._parts.process()
        process.check_leased()
        return process

    @contextmanager
    def _in_doubt_when_cut_off(self, tick: int) -> Iterator[int]:
        """Remember the tick when the connection breaks in its commit: it may hold messages that nobody was given."""
        try:
            yield tick
        except CommitUnknown:
            with self._lock:
                self._doubtful[tick] = self._parts.process().clock.monotonic()
            raise

    def _settle_doubts(self, limit: int) -> list[Message]:
        """The messages of claims whose answer was lost.

        A server that has lost us may still be at work on the claim, so a tick stays in doubt until it is found to hold
        something, or for a whole lease.
        """
        process = self._parts.process()
        with self._lock:
            for tick, since in list(self._doubtful.items()):
                with self._parts.database.glance() as tx:
                    held = self._parts.messages.claimed_by_tick(tx, self.name, process.id, tick)
                self._found += held
                if held or process.clock.monotonic() - since > process.settings.lease_s:
                    del self._doubtful[tick]
            given, self._found = self._found[:limit], self._found[limit:]
            return given


def answer(parts: QueueContext, tx: Transaction, message_id: str, reply_to: str, payload: Any) -> None:
    """Write the answer to a request. The caller moves the request in the same transaction."""
    _write(parts, tx, [(message_id, reply_to)], to_json(payload, parts.settings.max_payload_bytes, "answer"))


def answer_with_failure(parts: QueueContext, tx: Transaction, message_id: str, reply_to: str, reason: str) -> None:
    """Tell an asker why its request has failed."""
    _write(parts, tx, [(message_id, reply_to)], _failure(parts, reason))


def _answer_all(parts: QueueContext, tx: Transaction, messages: list[Message], payload: Any) -> None:
    """Give the same answer to all of these messages that are requests."""
    if asked := _requests(messages):
        _write(parts, tx, asked, to_json(payload, parts.settings.max_payload_bytes, "answer"))


def _batch(messages: Message | Sequence[Message]) -> list[Message]:
    return [messages] if isinstance(messages, Message) else list(messages)


def _requests(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.id, message.reply_to) for message in messages if message.reply_to is not None]


def _failure(parts: QueueContext, reason: str) -> str:
    said = storable(reason)[:LONGEST_FAILURE]
    return to_json({"error": said}, max(FAILURE_BYTES, parts.settings.max_payload_bytes), "answer")


def _write(parts: QueueContext, tx: Transaction, asked: list[tuple[str, str]], payload_json: str) -> None:
    ttl_s = parts.settings.reply_ttl_s
    if len(asked) == 1:
        [(message_id, reply_to)] = asked
        draft = Draft(new_id(), reply_to, REPLY, payload_json, related_id=message_id, audit_id=message_id, ttl_s=ttl_s)
        parts.messages.insert(tx, draft)
    else:  # in one go: a batch keeps other writers waiting until it is written
        parts.messages.insert_answers(tx, REPLY, [(new_id(), *each) for each in asked], payload_json, ttl_s)
    for name in {reply_to for _, reply_to in asked}:
        parts.ring_after(tx, name)
