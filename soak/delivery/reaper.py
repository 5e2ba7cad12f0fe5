"""Strikes as the plan says, and writes down what those that it hits are doing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from soak.delivery import tree
from soak.delivery.blow import Blow
from soak.delivery.books import Books, Open
from soak.delivery.drivers import Drivers
from soak.delivery.mortal import Mortal
from soak.delivery.plan import Strike, Target
from towpath.testing.queue_ledger import Journal

TICK_S = 0.1
PROGRESS_S = 60.0
VICTIM_S = 240.0  # a flow that recovers has a worker again by then
BUSY_S = 60.0  # for a worker with a task in hand; after it one that waits will do
WAKE_S = 60.0  # for a woken driver to notice that it was replaced

T = TypeVar("T")


class StageHalted(Exception):
    """Nothing in a run calls for that."""


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
    blows: list[Blow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _committed: int = 0

    @property
    def kills(self) -> int:
        return sum(blow.target is not Target.SLEEPER for blow in self.blows)

    def run(self, strikes: Sequence[Strike]) -> None:
        planned = sum(strike.target is not Target.SLEEPER for strike in strikes)
        for strike in strikes:
            self.phase = f"{self.kills} of {planned} kills"
            self._pass_time(strike.after_s)
            if not strike.is_at_once:
                self._await_progress()
            self.check_halted()
            self._strike(strike)

    def wait_for(self, condition: Callable[[], T | None], timeout_s: float, what: str) -> T:
        """Wait while drivers are replaced; `TimeoutError` after the limit."""
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout_s:g} s")
            self._tick()
        return found

    def rest(self, is_read: Callable[[], bool], longest_pause_s: float) -> None:
        """Until all is read: as long as it takes, if batches are committed meanwhile."""
        while not is_read():
            before = self.books.committed() or 0
            self.wait_for(
                lambda: is_read() or (self.books.committed() or 0) > before,  # noqa: B023  it is called before `before` changes
                longest_pause_s,
                "all is read, or another batch is",
            )

    def check_halted(self) -> None:
        """A stage that waits for a person will not go on: the run has failed."""
        if self.books.has_halted():
            raise StageHalted("a stage has halted")

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
                with suppress(TimeoutError):
                    self.wait_for(self.drivers.tasks, BUSY_S, "a worker with a task")
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
        batches = self.books.open_batches()
        tasks = {worker: task for worker in workers if (task := tree.task_of(worker)) is not None}
        if not (those := list(tasks) or workers):
            return False
        victim = those[int(chance * len(those))]
        is_hit = tree.send([victim], signal.SIGKILL) > 0
        if is_hit:
            self._write(Target.WORKER, batches, [tasks[victim]] if victim in tasks else [])
        return is_hit

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
        self._write(target, self.books.open_batches(), self.drivers.tasks())

    def _write(self, target: Target, batches: Sequence[Open] | None, tasks: Sequence[str]) -> None:
        driver = self.drivers.active
        blow = Blow(target, tuple(batches or ()), tuple(tasks), None if driver is None else driver.pid)
        self.blows.append(blow)
        self.journal.write(at=datetime.now(UTC).isoformat(), **asdict(blow))
