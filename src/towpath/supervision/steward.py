"""Coordinates for as long as no peer does: `towpath up` before the first one is there, `towpath down` after the last.

It takes the term only when nobody has it, and gives it back at once, so that it is never in a peer's way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from towpath.clock import Clock
from towpath.errors import DatabaseError
from towpath.service import Service
from towpath.supervision.bell import BELL
from towpath.supervision.coordinator import Coordinator
from towpath.supervision.coordinator_parts import CoordinatorParts

logger = logging.getLogger(__name__)

STEP_S = 0.1
RENEWED_PART = 3  # of a lease


class Steward:
    """A coordinator without an election."""

    def __init__(self, parts: CoordinatorParts, local: Sequence[Service], clock: Clock) -> None:
        """`local` is what every peer does for its own host."""
        self._parts = parts
        self._local = local
        self._clock = clock
        self._term = 0
        self._is_away = False
        self._held_until = float("-inf")
        self._coordinator = Coordinator(parts, self._held, clock)

    def work(self, is_done: Callable[[], bool], timeout_s: float, is_needed: Callable[[], bool]) -> bool:
        """Keep duties, where that is needed, until something is so; false when the time is over before."""
        deadline = self._clock.monotonic() + timeout_s
        bell = self._parts.database.bells.hang(BELL)
        for service in self._local:
            service.start()
        try:
            while not self._step(is_done, is_needed):
                if self._clock.monotonic() > deadline:
                    return False
                bell.wait(STEP_S)
                bell.clear()
            return True
        finally:
            self._parts.database.bells.take_down(BELL, bell)
            for service in self._local:
                service.stop()
            self._let_go()
            self._parts.reach.close()

    def _step(self, is_done: Callable[[], bool], is_needed: Callable[[], bool]) -> bool:
        """Whether it is done. A database that is away is waited for."""
        try:
            if is_done():
                return True
            if not is_needed():
                self._let_go()
            elif self._hold():
                self._coordinator.run_once()
            self._is_away = False
        except DatabaseError as error:
            if not self._is_away:
                logger.warning("%s; waiting for it", error)
            self._is_away = True
        return False

    def _held(self) -> int:
        return self._term if self._clock.monotonic() < self._held_until else 0

    def _hold(self) -> bool:
        """Whether this process coordinates now."""
        lease_s, now = self._parts.settings.lease_s, self._clock.monotonic()
        if now < self._held_until - lease_s * (1 - 1 / RENEWED_PART):
            return True
        terms = self._parts.terms
        if self._held() and terms.renew(self._term):
            self._held_until = now + lease_s
        elif (term := terms.take()) is not None:
            self._term, self._held_until = term, now + lease_s
        else:
            self._held_until = float("-inf")
        return self._held() > 0

    def _let_go(self) -> None:
        if self._held():
            with suppress(DatabaseError):  # then it ends by itself
                self._parts.terms.release(self._term)
        self._held_until = float("-inf")
