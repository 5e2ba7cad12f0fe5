"""A time limit for one call of a user's function, in the worker that runs it.

A thread looks at how long the present call has been running. One that is over its time is interrupted by a signal,
whose handler raises `OverTime` inside it. A call that does not come back even then (it is inside C code, or catches
everything) ends the worker; before that it is written down which record it was, so that nobody has to search for it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType

STUCK_EXIT = 70
LOOKS_PER_LIMIT = 10
LONGEST_LOOK_S = 1.0
LEAST_GRACE_S = 1.0


class OverTime(BaseException):
    """The call took longer than its limit. No `Exception`: a function that catches all of these is interrupted too."""


class Watchdog:
    """Watches the calls of a worker's main thread, the one that gets signals. One for all functions of a segment."""

    def __init__(self, limits_s: Sequence[float], on_stuck: Callable[[], None]) -> None:
        self._look_s = min(LONGEST_LOOK_S, min(limits_s) / LOOKS_PER_LIMIT)
        self._on_stuck = on_stuck
        self._call: tuple[float, float] | None = None  # when it began, and its limit
        self._ended = threading.Event()
        self._main = threading.main_thread().ident or 0
        self._handler = signal.signal(signal.SIGALRM, self._interrupt)
        self._thread = threading.Thread(target=self._watch, name="towpath-watchdog", daemon=True)
        self._thread.start()

    def begin(self, limit_s: float) -> None:
        self._call = (time.monotonic(), limit_s)

    def end(self) -> None:
        self._call = None

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        signal.signal(signal.SIGALRM, self._handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # The call may have come to its end while the signal was on its way, and another may have begun.
        if _over_s(self._call) > 0:
            raise OverTime

    def _watch(self) -> None:
        interrupted: tuple[float, float] | None = None
        interrupted_at = 0.0
        while not self._ended.wait(self._look_s):
            call = self._call
            if call is None or _over_s(call) <= 0:
                continue
            if call is not interrupted:
                interrupted, interrupted_at = call, time.monotonic()
                signal.pthread_kill(self._main, signal.SIGALRM)
            elif time.monotonic() - interrupted_at > max(call[1], LEAST_GRACE_S):
                self._on_stuck()
                os._exit(STUCK_EXIT)


def _over_s(call: tuple[float, float] | None) -> float:
    """By how much a call has passed its limit; not above 0: it has not."""
    return 0.0 if call is None else time.monotonic() - call[0] - call[1]
