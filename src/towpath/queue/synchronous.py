"""The synchronous inbox: one message at a time, in the order in which they came, abortable."""

from __future__ import annotations

import threading
from typing import Any

from towpath.errors import ClaimLost, ProcessDead
from towpath.events import Event, EventKind
from towpath.queue.handling import Handling
from towpath.queue.inbox import Inbox
from towpath.queue.message import Message
from towpath.queue.parts import Parts
from towpath.queue.worker import Worker
from towpath.service import Result


class SynchronousInbox(Worker):
    """Handles one message at a time in the service's own thread."""

    def __init__(self, parts: Parts, inbox: Inbox) -> None:
        super().__init__(parts, inbox)
        self._work: Handling | None = None
        self._next: list[Message] = []
        self._work_lock = threading.Lock()

    def run_once(self) -> Result:
        messages, self._next = self._next or self.claim(1), []
        if not messages:
            return Result(0, self.idle_rest_s())
        if self.is_stopping:
            self.give_back(messages)
            return Result(0, 0)
        with self._work_lock:
            self._work = Handling(messages[0])
        try:
            self.handle(self._work)
        finally:
            with self._work_lock:
                self._work = None
        return Result(1, 0)

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

        The handler is not torn from its work: `towpath.queue.is_aborted()` tells it, and whatever it does after this
        does not count.
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
