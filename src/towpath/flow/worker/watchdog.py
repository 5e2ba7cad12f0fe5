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
from collections.abc import Callable
from types import FrameType

STUCK_EXIT = 70
LOOKS_PER_LIMIT = 10
LONGEST_LOOK_S = 1.0


class OverTime(BaseException):
    """The call took longer than its limit. No `Exception`: a function that catches all of these is interrupted too."""


class Watchdog:
    """Watches the calls of one thread, the main one of its process: only that one gets signals."""

    def __init__(self, limit_s: float, on_stuck: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._on_stuck = on_stuck
        self._began: float | None = None
        self._interrupted = False
        self._ended = threading.Event()
        self._main = threading.main_thread().ident
        self._handler = signal.signal(signal.SIGALRM, self._interrupt)
        self._thread = threading.Thread(target=self._watch, name="towpath-watchdog", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._interrupted = False
        self._began = time.monotonic()

    def end(self) -> None:
        self._began = None

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        signal.signal(signal.SIGALRM, self._handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # The call may have come to its end while the signal was on its way.
        if self._began is not None:
            self._began = None
            raise OverTime

    def _watch(self) -> None:
        look_s = min(self._limit_s / LOOKS_PER_LIMIT, LONGEST_LOOK_S)
        while not self._ended.wait(look_s):
            began = self._began
            if began is None:
                continue
            over_s = time.monotonic() - began - self._limit_s
            if over_s > 0 and not self._interrupted:
                self._interrupted = True
                signal.pthread_kill(self._main or 0, signal.SIGALRM)
            elif over_s > max(self._limit_s, 1.0):
                self._on_stuck()
                os._exit(STUCK_EXIT)
