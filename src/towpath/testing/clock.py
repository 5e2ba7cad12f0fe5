"""Time in tests: a clock that stands still until it is moved, and waiting for a condition instead of a guessed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INTERVAL_S = 0.01
AWAKE_S = 0.2


class SettableClock:
    """Fits `towpath.core.clock.Clock`. Only for local time: the database's time is moved by `Database.shift_clock`."""

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


def wait_until(condition: Callable[[], T], timeout_s: float = 30.0, what: str = "the condition") -> T:
    """Call `condition` until what it returns is true, and return that; raise `TimeoutError` after the limit.

    It is called once more after the limit: this process may have stood still since the call before.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_late = time.monotonic() > deadline
        found = condition()
        if found:
            return found
        if is_late:
            raise TimeoutError(f"{what} did not come true within {timeout_s:g} s; the last value was {found!r}")
        time.sleep(INTERVAL_S)


def wait_while_it_goes_on(
    condition: Callable[[], object], progress: Callable[[], object], still_s: float, what: str = "the condition"
) -> None:
    """Wait for the end of work, however long it takes: raise `TimeoutError` when nothing has changed for so long.

    How long so many messages take says how fast the machine is. That none of them gets any further is a fault.
    """
    seen, since = progress(), time.monotonic()
    while not condition():
        is_late = time.monotonic() - since > still_s
        if (now := progress()) != seen:
            seen, since = now, time.monotonic()
        elif is_late:
            raise TimeoutError(f"{what} did not come true, and nothing has changed for {still_s:g} s: {seen!r}")
        time.sleep(INTERVAL_S)


def wait_for_handler(event: threading.Event) -> None:
    """Wait in the main thread until a handler of a signal sets the event.

    Handlers run in the main thread. A process that is frozen when a signal comes may get it in another one when it
    goes on. That does not wake the main thread, so it has to wake up by itself. It must not hold the event's lock when
    the handler needs it, so it sleeps.
    """
    while not event.is_set():
        time.sleep(AWAKE_S)
