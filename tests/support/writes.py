"""How much work write transactions are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from towpath.db.sqlite import database as sqlite

MOST_S = 0.250
ROUNDS = 10  # the best of so many counts: the first of its kind reads what the others find in memory


class Stopwatch:
    """How long each write transaction had the processor, from its begin to its commit.

    Not how long it lasted: that also says how busy the machine is, and how slow its disk.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.longest_s = 0.0
        enter, leave = sqlite._Write.__enter__, sqlite._Write.__exit__
        began: dict[int, float] = {}

        def timed_enter(write: Any) -> Any:
            entered = enter(write)
            began[id(write)] = time.thread_time()
            return entered

        def timed_leave(write: Any, *error: Any) -> None:
            leave(write, *error)
            self.longest_s = max(self.longest_s, time.thread_time() - began.pop(id(write)))

        monkeypatch.setattr(sqlite._Write, "__enter__", timed_enter)
        monkeypatch.setattr(sqlite._Write, "__exit__", timed_leave)

    def best_of(self, round_: Callable[[], Any]) -> float:
        taken = []
        for _ in range(ROUNDS):
            self.longest_s = 0.0
            round_()
            taken.append(self.longest_s)
            if taken[-1] < MOST_S:
                break
        return min(taken)
