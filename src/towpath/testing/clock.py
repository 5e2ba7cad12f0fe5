"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading


class SettableClock:
    """Fits `towpath.clock.Clock`. Only for local time: the database's time is moved by `Database.shift_clock`."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self._now_s = start_s
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds:g} s")
        with self._lock:
            self._now_s += seconds
