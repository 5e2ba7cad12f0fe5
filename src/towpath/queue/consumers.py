"""Inboxes that run handlers: synchronous, asynchronous and single-shot.

- Synchronous: one message at a time, in the order in which they came, abortable.
- Asynchronous: several at once. Back-pressure is in the claim: a message is taken only when a thread is free for it, so
  that what waits, waits in the queue, where others can take it and people can see it.
- Single-shot: wait for one message, or take over the one that a dead process left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.core.service import RoundResult, Service
from towpath.db.wakeups import Wakeup
from towpath.errors import BadPayload, BadValue, ClaimLost, CommitUnknown, DatabaseError, ProcessDead
from towpath.queue.inbox import Inbox
from towpath.queue.janitor import Caretaker
from towpath.queue.model import GiveBack, Handling, Message, handling
from towpath.queue.payload import check_name
from towpath.queue.states import MessageState
from towpath.queue.store import QueueContext

logger = logging.getLogger(__name__)
Handler = Callable[[Message], Any]
FIRST_PAUSE_S = 0.05  # between tries to end a message while the database is away
LONGEST_PAUSE_S = 2.0
FULL_REST_S = 0.5  # while every thread is busy
LOOKED_AT_FOR_STEALING = 100


class Worker(Service):
    """An inbox that hands its messages to the handlers that subscribed to their functions.

    A handler's returned value is the answer to a request; `GiveBack` puts the message back; an exception makes it
    ERR, with the reason as the answer. What nobody handles is ERR too.
    """

    def __init__(self, parts: QueueContext, inbox: Inbox) -> None:
        super().__init__(parts.events)
        self.name = f"inbox:{inbox.name}"
        self.inbox = inbox
        self._parts = parts
        self._handlers: dict[str, Handler] = {}
        self._bell: Wakeup | None = None

    def on(self, function: str) -> Callable[[Handler], Handler]:
        """Subscribe the decorated handler to a function."""
        check_name(function, "function")

        def subscribe(handler: Handler) -> Handler:
            self._handlers = {**self._handlers, function: handler}
            return handler

        return subscribe

    def replay(self, count: int) -> int:
        """Hand the last `count` handled messages to their handlers again, oldest first. Nothing in the queue changes.

        For handlers that rebuild something in memory: answers are thrown away and errors are the caller's.
        """
        messages = [m for m in self.inbox.last(count) if m.function in self._handlers]
        for message in messages:
            with handling(Handling(message)):
                self._handlers[message.function](message)
        return len(messages)

    def start(self) -> None:
        self._parts.process()  # a process row before the first claim, and an error here rather than in the loop
        if self._bell is None:
            self._bell = self._parts.database.wakeups.hang(self.inbox.name)
        super().start()

    def rest(self, seconds: float) -> None:
        if self._bell is not None:
            self._bell.wait(seconds)

    def wake(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def claim(self, limit: int) -> list[Message]:
        """Claim for this round."""
        self.clear_bell()
        return self.inbox.claim(limit)

    def clear_bell(self) -> None:
        """Call this before each claim: what is sent afterwards rings the bell again."""
        if self._bell is not None:
            self._bell.clear()

    def idle_rest_s(self) -> float:
        """How long to rest when nothing waits: until the next delayed message, but not longer than a slow poll."""
        due_s = self.inbox.seconds_until_due()
        poll_s = self._parts.settings.poll_s
        return poll_s if due_s is None else min(max(due_s, 0.001), poll_s)

    def handle(self, work: Handling) -> None:
        """Run the handler on one message and tell the queue what came of it."""
        message = work.message
        handler = self._handlers.get(message.function)
        if handler is None:
            known = ", ".join(sorted(self._handlers)) or "none"
            self._end(message, _Failed(f"nobody handles {message.function!r} here; handled functions: {known}"))
            return
        with handling(work):
            try:
                outcome = handler(message)
            except BaseException as error:  # sys.exit() in a handler ends its message, not this service
                logger.warning("%s: %s %s failed", self.name, message.function, message.id, exc_info=True)
                outcome = _Failed(f"{type(error).__name__}: {error}")
        crash.here(CrashPoint.HANDLER_DONE)
        self._end(message, outcome)

    def _end(self, message: Message, outcome: Any) -> None:
        """Make the move that follows the handler, however long the database is away."""
        pause_s = FIRST_PAUSE_S
        in_doubt = False
        while True:
            try:
                if not (in_doubt and self._was_ended(message, outcome)):
                    self._move(message, outcome)
                return
            except ClaimLost as lost:
                logger.warning("%s: %s", self.name, lost)
                return
            except (BadPayload, BadValue) as bad:
                outcome = _Failed(f"the handler's answer cannot be sent: {bad}")
            except DatabaseError as away:
                in_doubt = in_doubt or isinstance(away, CommitUnknown)
                if self.is_stopping:  # the claim is left to run out and be freed by others
                    logger.warning("%s: stopping without knowing what became of %s: %s", self.name, message.id, away)
                    return
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _was_ended(self, message: Message, outcome: Any) -> bool:
        state = MessageState.ERR if isinstance(outcome, _Failed) else MessageState.OK
        with self._parts.database.read() as tx:
            return self._parts.messages.already_ended(tx, message, state)

    def _move(self, message: Message, outcome: Any) -> None:
        match outcome:
            case _Failed():
                self.inbox.fail(message, outcome.reason)
            case GiveBack():
                self.inbox.release(message, outcome.after_s)
            case _:
                self.finish(message, outcome)

    def finish(self, message: Message, payload: Any) -> None:
        """The handler has returned; `payload` is its answer."""
        self.inbox.finish(message, payload)

    def give_back(self, messages: list[Message]) -> None:
        """Put back what was claimed and will not be handled: this process is stopping."""
        try:
            self.inbox.release(messages)
        except (ClaimLost, DatabaseError, ProcessDead) as error:
            logger.warning("%s: could not give back %d messages: %s", self.name, len(messages), error)


class SynchronousInbox(Worker):
    """Handles one message at a time in the service's own thread."""

    def __init__(self, parts: QueueContext, inbox: Inbox) -> None:
        super().__init__(parts, inbox)
        self._work: Handling | None = None
        self._next: list[Message] = []
        self._work_lock = threading.Lock()

    def run_once(self) -> RoundResult:
        messages, self._next = self._next or self.claim(1), []
        if not messages:
            return RoundResult(0, self.idle_rest_s())
        if self.is_stopping:
            self.give_back(messages)
            return RoundResult(0, 0)
        with self._work_lock:
            self._work = Handling(messages[0])
        try:
            self.handle(self._work)
        finally:
            with self._work_lock:
                self._work = None
        return RoundResult(1, 0)

    def finish(self, message: Message, payload: Any) -> None:
        """Finish, and claim the next message in the same transaction: half the commits."""
        if self.is_stopping:
            super().finish(message, payload)
        else:
            self.clear_bell()
            try:
                self._next = self.inbox.exchange(message, payload)
            except ProcessDead:
                # The database was away for a whole lease: nothing new is claimed, but what is done is done.
                super().finish(message, payload)

    def on_stop(self) -> None:
        if self._next:
            self.give_back(self._next)
            self._next = []

    def abort(self, why: str) -> bool:
        """End the message that is being handled as ERR, now. False when nothing is being handled.

        The handler is not interrupted: `towpath.queue.is_aborted()` tells it, and whatever it does after this does
        not count.
        """
        with self._work_lock:
            work = self._work
        if work is None:
            return False
        work.aborted.set()
        message, parts = work.message, self._parts
        try:
            with parts.database.transaction() as tx:
                self.inbox.fail(message, f"aborted: {why}", tx=tx)
                parts.event_log.record(tx, Event(EventKind.MESSAGE_ABORTED, message.id, why=why))
        except ClaimLost:
            return False  # it came to its end in this very moment, or is another's by now
        return True


class AsynchronousInbox(Worker):
    """Handles up to `workers` messages at once, each in a thread."""

    def __init__(self, parts: QueueContext, inbox: Inbox, workers: int) -> None:
        if not 1 <= workers <= 256:
            raise BadValue(f"workers={workers} must be between 1 and 256")
        super().__init__(parts, inbox)
        self.workers = workers
        self._busy = 0
        self._busy_lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def busy(self) -> int:
        """How many messages are being handled."""
        return self._busy

    def run_once(self) -> RoundResult:
        self.clear_bell()
        free = self.workers - self._busy
        if free <= 0:
            return RoundResult(0, FULL_REST_S)  # a handler that ends rings the bell
        messages = self.claim(free)
        if not messages:
            return RoundResult(0, self.idle_rest_s())
        if self.is_stopping:
            self.give_back(messages)
            return RoundResult(0, 0)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix=self.name)
        with self._busy_lock:
            self._busy += len(messages)
        for message in messages:
            self._pool.submit(self._handle_one, message)
        return RoundResult(len(messages), 0 if len(messages) < free else FULL_REST_S)

    def on_stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)  # what was begun is brought to its end
            self._pool = None

    def _handle_one(self, message: Message) -> None:
        try:
            self.handle(Handling(message))
        finally:
            with self._busy_lock:
                self._busy -= 1
            self.wake()


class SingleShotInbox:
    """Waits for one message: for a process that is started for one piece of work."""

    def __init__(self, parts: QueueContext, inbox: Inbox) -> None:
        self._parts = parts
        self.inbox = inbox

    def receive(self, timeout_s: float, *, steal: bool = True) -> Message | None:
        """The next message, claimed; none when nothing came in time.

        With `steal`, what a dead or stopped owner held is freed at once, by the inbox's policy and with a record, and
        taken over if the policy allows it.
        """
        deadline = time.monotonic() + timeout_s
        wakeups = self._parts.database.wakeups
        wakeup = wakeups.hang(self.inbox.name)
        try:
            while True:
                wakeup.clear()
                claimed = self.inbox.claim(1)
                message = claimed[0] if claimed else self._steal() if steal else None
                left_s = deadline - time.monotonic()
                if message is not None or left_s <= 0:
                    return message
                due_s = self.inbox.seconds_until_due()
                wakeup.wait(
                    min(left_s, self._parts.settings.poll_s, float("inf") if due_s is None else max(due_s, 0.001))
                )
        finally:
            wakeups.take_down(self.inbox.name, wakeup)

    def _steal(self) -> Message | None:
        parts = self._parts
        owners = {m.owner for m in self.inbox.eavesdrop(LOOKED_AT_FOR_STEALING) if m.owner is not None}
        if not owners:
            return None
        caretaker = Caretaker(parts)
        caretaker.mark_gone()
        with parts.database.beats.glance() as tx:
            gone = owners - parts.processes.living(tx, owners)
        if sum(map(caretaker.free_claims_of, gone)) == 0:
            return None
        claimed = self.inbox.claim(1)
        return claimed[0] if claimed else None


@dataclass(frozen=True, slots=True)
class _Failed:
    """The handler raised, or there is none."""

    reason: str
