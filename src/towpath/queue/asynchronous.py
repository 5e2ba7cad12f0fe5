"""The asynchronous inbox: several messages at once, never more claimed than can be started.

Back-pressure is in the claim: a message is taken only when a thread is free for it, so that what waits, waits in the
queue, where others can take it and people can see it.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from towpath.errors import BadValue
from towpath.queue.handling import Handling
from towpath.queue.inbox import Inbox
from towpath.queue.message import Message
from towpath.queue.parts import Parts
from towpath.queue.worker import Worker
from towpath.service import Result

FULL_REST_S = 0.5


class AsynchronousInbox(Worker):
    """Handles up to `workers` messages at once, each in a thread."""

    def __init__(self, parts: Parts, inbox: Inbox, workers: int) -> None:
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

    def run_once(self) -> Result:
        self.clear_bell()
        free = self.workers - self._busy
        if free <= 0:
            return Result(0, FULL_REST_S)  # a handler that ends rings the bell
        messages = self.claim(free)
        if not messages:
            return Result(0, self.idle_rest_s())
        if self.is_stopping:
            self.give_back(messages)
            return Result(0, 0)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix=self.name)
        with self._busy_lock:
            self._busy += len(messages)
        for message in messages:
            self._pool.submit(self._handle_one, message)
        return Result(len(messages), 0 if len(messages) < free else FULL_REST_S)

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
