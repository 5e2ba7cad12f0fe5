"""What the synchronous and the asynchronous inbox share: subscriptions, and the handling of one message."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db.bells import Bell
from towpath.errors import (
    BadPayload,
    BadValue,
    ClaimLost,
    CommitUnknown,
    DatabaseError,
    ProcessDead,
)
from towpath.queue.handling import Handling, handling
from towpath.queue.inbox import Inbox
from towpath.queue.message import GiveBack, Message
from towpath.queue.parts import Parts
from towpath.queue.payload import check_name
from towpath.queue.state import MessageState
from towpath.service import Service

logger = logging.getLogger(__name__)

Handler = Callable[[Message], Any]

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


class Worker(Service):
    """An inbox that hands its messages to the handlers that subscribed to their functions.

    A handler's returned value is the answer to a request; `GiveBack` puts the message back; an exception makes it
    ERR, with the reason as the answer. What nobody handles is ERR too.
    """

    def __init__(self, parts: Parts, inbox: Inbox) -> None:
        super().__init__(parts.events)
        self.name = f"inbox:{inbox.name}"
        self.inbox = inbox
        self._parts = parts
        self._handlers: dict[str, Handler] = {}
        self._bell: Bell | None = None

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
            self._bell = self._parts.database.bells.hang(self.inbox.name)
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
        """To be done before each claim: what is sent from here on rings it again."""
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
        """The handler is done with the message."""
        self.inbox.finish(message, payload)

    def give_back(self, messages: list[Message]) -> None:
        """Put back what was claimed and will not be handled: this process is stopping."""
        try:
            self.inbox.release(messages)
        except (ClaimLost, DatabaseError, ProcessDead) as error:
            logger.warning("%s: could not give back %d messages: %s", self.name, len(messages), error)


class _Failed:
    """The handler raised, or there is none."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason
