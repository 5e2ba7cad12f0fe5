"""How long to wait before the next try, and when to give up."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from towpath.clock import Clock, SystemClock
from towpath.errors import GatewayAway

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 15.0
FACTOR = 2.0

Waiting = Callable[[str, float], None]  # why, and for how many seconds


class Stopped(Exception):
    """Whoever started it wants it to end; all that was acknowledged counts."""


def say_nothing(why: str, wait_s: float) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True)
class Manners:
    """How a client waits: twice as long after each failure, without end unless a limit is given."""

    first_wait_s: float
    longest_wait_s: float
    give_up_after_s: float | None = None  # since something has last worked


class Patience:
    """The waiting of one thread. `stop` ends a wait at once."""

    def __init__(
        self,
        manners: Manners,
        stop: threading.Event | None = None,
        on_wait: Waiting = say_nothing,
        clock: Clock | None = None,
    ) -> None:
        self._manners = manners
        self._stop = stop or threading.Event()
        self._on_wait = on_wait
        self._clock = clock or SystemClock()
        self._next_s = manners.first_wait_s
        self._worked_at = self._clock.monotonic()

    def check(self) -> None:
        """`Stopped` when it is to end."""
        if self._stop.is_set():
            raise Stopped

    def worked(self) -> None:
        """The next failure is the first one again."""
        self._next_s = self._manners.first_wait_s
        self._worked_at = self._clock.monotonic()

    def wait(self, why: str, at_least_s: float = 0.0) -> None:
        """Before the next try: as long as the server asks for, or longer after each failure."""
        wait_s = at_least_s * _spread(1.0, 1.25) if at_least_s else self._longer()
        self._check_limit(why, wait_s)
        self._on_wait(why, wait_s)
        self.pause(wait_s)

    def _longer(self) -> float:
        now_s, self._next_s = self._next_s, min(self._next_s * FACTOR, self._manners.longest_wait_s)
        return now_s * _spread(0.5, 1.0)

    def pause(self, wait_s: float) -> None:
        """A wait that is no failure."""
        if self._stop.wait(wait_s):
            raise Stopped

    def _check_limit(self, why: str, wait_s: float) -> None:
        limit_s = self._manners.give_up_after_s
        passed_s = self._clock.monotonic() - self._worked_at
        if limit_s is not None and passed_s + wait_s > limit_s:
            raise GatewayAway(
                f"gave up after {passed_s:,.0f} s without success: {why}; the same command goes on from here"
            )


def _spread(least: float, most: float) -> float:
    """So that many clients do not come back at the same moment."""
    return random.uniform(least, most)  # noqa: S311 - nobody gains by guessing it
