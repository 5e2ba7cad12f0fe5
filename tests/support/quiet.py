"""Runtimes whose background services stand still, so that a test makes every round itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.core.service import Service
from towpath.db import Database
from towpath.db.processes import Process
from towpath.queue import Queue
from towpath.queue.janitor import Caretaker
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.testing.clock import SettableClock, wait_until

LEASE_S = 60.0


class _WithoutServices(Runtime):
    """Registers its process as every runtime does, and starts nothing."""

    def process(self) -> Process:
        with self._lock:
            if self._process is None:
                self._process = Process(self.database, self.settings.process, self._clock)
                self._process.register()
            return self._process

    def _start(self, *services: Service) -> None:
        """Neither the janitor that comes with the log, nor any other."""


@dataclass
class Quiet:
    """One process's Towpath without heartbeat, caretaker and janitor. Its local clock moves only by hand."""

    runtime: Runtime
    clock: SettableClock
    readings_of_dead: list[str] = field(default_factory=list)
    closed_with_it: list[Any] = field(default_factory=list)

    @classmethod
    def open(cls, settings: Settings) -> Quiet:
        clock = SettableClock()
        readings: list[str] = []
        runtime = _WithoutServices(settings, clock, on_dead=lambda: readings.append("dead"))
        runtime.process()
        return cls(runtime, clock, readings)

    @property
    def queue(self) -> Queue:
        return self.runtime.queue

    @property
    def database(self) -> Database:
        return self.runtime.database

    @property
    def process(self) -> Process:
        return self.runtime.process()

    @property
    def caretaker(self) -> Caretaker:
        return self.queue.caretaker()

    def close(self) -> None:
        for each in self.closed_with_it:
            each.close()
        self.runtime.close()

    def hold_lease(self) -> None:
        """Beat for longer than one lease without a break, so that it may declare others dead."""
        for _ in range(4):
            self.clock.advance(self.process.settings.lease_s / 3)
            self.process.renew()


def shift(seconds: float, *everybody: Quiet) -> None:
    """Move the database's time, and come back when everybody sees it."""
    before = [quiet.database.now() for quiet in everybody]
    everybody[0].database.shift_clock(seconds)
    for quiet, then in zip(everybody, before, strict=True):
        for database in (quiet.database, quiet.database.beats):
            wait_until(lambda d=database, t=then: d.now() >= t + seconds * 1e6, what="the shifted time")  # type: ignore[misc]


def let_die(dead: Quiet, *survivors: Quiet) -> None:
    """The lease of one runs out while the others go on beating; the first survivor may then free its claims."""
    outlive(*survivors, seen_by=(dead,))


def outlive(*living: Quiet, seen_by: Sequence[Quiet] = ()) -> None:
    """A lease passes in which these beat without a break: they may then declare dead whoever did not."""
    step_s = living[0].process.settings.lease_s / 3 + 0.5
    for _ in range(4):
        before = [each.database.now() for each in living]
        shift(step_s, *living, *seen_by)
        for each, then in zip(living, before, strict=True):
            # By what has really passed: on a busy machine more, and the database's clock would seem to have been set.
            each.clock.advance((each.database.now() - then) / 1e6)
            each.process.renew()
