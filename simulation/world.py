"""Virtual time: what happens next, and one source of chance for all."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any


class World:
    """A queue of what is to happen, ordered by time and then by the order in which it was planned."""

    def __init__(self, seed: object, trace: Callable[[str], None] | None = None) -> None:
        self.now = 0.0
        self.rng = random.Random(str(seed))
        self.events = 0
        self._trace = trace
        self._planned: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._order = 0

    def after(self, seconds: float, act: Callable[..., Any], *args: Any) -> None:
        self._order += 1
        heapq.heappush(self._planned, (self.now + seconds, self._order, act, args))

    def run_until(self, time: float) -> None:
        planned = self._planned
        while planned and planned[0][0] <= time:
            self.now, _, act, args = heapq.heappop(planned)
            self.events += 1
            act(*args)
        self.now = time

    def say(self, *words: object) -> None:
        """One line of the trace, if anybody reads it."""
        if self._trace is not None:
            self._trace(f"{self.now:9.3f}  " + " ".join(map(str, words)))
