"""Strikes as the plan says, and counts whom it has hit in the middle of a batch."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from soak.delivery import tree
from soak.delivery.books import Books
from soak.delivery.drivers import Drivers
from soak.delivery.mortal import Mortal
from soak.delivery.plan import Strike, Target
from towpath.testing.journal import Journal

TICK_S = 0.1
PROGRESS_S = 60.0
VICTIM_S = 240.0  # a flow that recovers has a worker again by then
WAKE_S = 60.0  # for a woken driver to notice that it was replaced

T = TypeVar("T")


@dataclass
class Reaper:
    """Ends processes; servers come back by themselves, drivers are replaced at every tick."""

    drivers: Drivers
    kafka: Mortal
    postgres: Mortal
    books: Books
    journal: Journal  # for whoever looks for the cause of a deviation
    watch: Callable[[str], None]
    phase: str = "starting"
    struck: Counter[Target] = field(default_factory=Counter)
    in_batch: Counter[Target] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _committed: int = 0

    @property
    def kills(self) -> int:
        return self.struck.total() - self.struck[Target.SLEEPER]

    def run(self, strikes: Sequence[Strike]) -> None:
        planned = sum(strike.target is not Target.SLEEPER for strike in strikes)
        for strike in strikes:
            self.phase = f"{self.kills} of {planned} kills"
            self._pass_time(strike.after_s)
            if not strike.is_at_once:
                self._await_progress()
            self._strike(strike)
            self.struck[strike.target] += 1

    def wait_for(self, condition: Callable[[], T | None], timeout_s: float, what: str) -> T:
        """Wait while drivers are replaced; `TimeoutError` after the limit."""
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout_s:g} s")
            self._tick()
        return found

    def _pass_time(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._tick()

    def _await_progress(self) -> None:
        """A batch is committed between most strikes, or a slow machine would be at the same batch all the time."""
        with suppress(TimeoutError):
            self.wait_for(lambda: (self.books.committed() or 0) > self._committed, PROGRESS_S, "a batch")
        self._committed = self.books.committed() or self._committed

    def _tick(self) -> None:
        self.drivers.refill()
        self.watch(self.phase)
        time.sleep(TICK_S)

    def _strike(self, strike: Strike) -> None:
        match strike.target:
            case Target.WORKER:
                self.wait_for(self.drivers.workers, VICTIM_S, "a worker that could be killed")
                self._note(strike.target)
                self.wait_for(lambda: self._kill_worker(strike.chance), VICTIM_S, "a worker to kill")
            case Target.DRIVER:
                self._note(strike.target)
                self.drivers.refill()
                self.drivers.kill()
            case Target.KAFKA | Target.POSTGRES:
                server = self.kafka if strike.target is Target.KAFKA else self.postgres
                self.wait_for(lambda: server.is_up, VICTIM_S, f"{strike.target} up")
                self._note(strike.target)
                server.kill(strike.chance)
            case Target.SLEEPER:
                self._sleep(strike)

    def _kill_worker(self, chance: float) -> bool:
        workers = self.drivers.workers()
        return bool(workers) and tree.send([workers[int(chance * len(workers))]], signal.SIGKILL) > 0

    def _sleep(self, strike: Strike) -> None:
        sleeper = self.wait_for(
            lambda: self.drivers.put_to_sleep(whole=strike.chance < 0.5), VICTIM_S, "a driver that could be stopped"
        )
        self._note(strike.target)
        try:
            self.wait_for(lambda: self.drivers.active, VICTIM_S, "a successor of a driver that sleeps")
        finally:
            self.drivers.wake()
        with suppress(TimeoutError):
            self.wait_for(lambda: not sleeper.is_running, WAKE_S, "the end of a woken driver")
        if not self.drivers.let_go(sleeper):
            self.problems.append(f"driver {sleeper.pid} woke up after its successor had begun, and went on")

    def _note(self, target: Target) -> None:
        is_open = bool(self.books.open_batches())
        self.in_batch[target] += is_open
        driver = self.drivers.active
        self.journal.write(
            at=datetime.now(UTC).isoformat(), target=target, is_open=is_open, driver=driver and driver.pid
        )
