"""The threads that run the code of states."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Workers(Generic[T]):
    """Up to `most` threads, made when they are needed.

    They are daemons: code that never returns must not keep its process from ending. There are no futures, whose locks
    cost more than a short state: `do` says itself what came of it, and does not raise.
    """

    def __init__(self, most: int, do: Callable[[T], None]) -> None:
        self._most = most
        self._do = do
        self._waiting: SimpleQueue[T | None] = SimpleQueue()
        self._threads = 0

    def begin(self, work: T, in_hand: int) -> None:
        """Run this. `in_hand` is how many there are in all, this one included: so many threads are enough."""
        self._waiting.put(work)
        if self._threads < min(in_hand, self._most):
            self._threads += 1
            name = f"actor-{self._threads}"
            threading.Thread(target=self._work, args=(self._waiting,), name=name, daemon=True).start()

    def end(self) -> None:
        """What waits is not begun any more, and each thread ends after what it is in."""
        while not self._waiting.empty():
            self._waiting.get()
        for _ in range(self._threads):
            self._waiting.put(None)
        # What is begun from now on is not for these threads, of which one may still be in something long.
        self._waiting, self._threads = SimpleQueue(), 0

    def _work(self, waiting: SimpleQueue[T | None]) -> None:
        while (work := waiting.get()) is not None:
            self._do(work)
