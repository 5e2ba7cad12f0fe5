"""The drivers: one at work, one that stands by with its Spark started. Whoever is gone is replaced."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from soak.delivery import tree
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess

COUNT = 2
STOP_S = 120.0
LEAVE_S = 60.0  # for what a killed driver leaves, on a busy machine


@dataclass
class Drivers:
    """Started by `start`; each makes a file with its number when it has the flow."""

    start: Callable[[], ChildProcess]
    active_in: Path
    children: list[ChildProcess] = field(default_factory=list)
    sleepers: list[ChildProcess] = field(default_factory=list)
    stopped: list[tree.Process] = field(default_factory=list)
    left: list[tree.Process] = field(default_factory=list)  # what killed ones had started
    ended: Counter[int] = field(default_factory=Counter)  # by themselves, by exit code
    killed: set[int] = field(default_factory=set)

    def refill(self) -> None:
        for child in list(self.children):
            if not child.is_running:
                self.children.remove(child)
                self._bury(child)
        while len(self.children) < COUNT:
            self.children.append(self.start())

    @property
    def active(self) -> ChildProcess | None:
        """Who has the flow. While a dead one's lease runs, nobody."""
        return next((child for child in self.children if child.is_running and self._is_active(child)), None)

    def workers(self) -> list[tree.Process]:
        return [] if (child := self.active) is None else tree.workers(child.pid)

    def tasks(self) -> list[str]:
        """What the workers of the active one have in hand."""
        return [task for worker in self.workers() if (task := tree.task_of(worker)) is not None]

    def kill(self) -> None:
        """The active one, or the oldest of those that want to be."""
        self._end(self.active or next(child for child in self.children if child.is_running))

    def put_to_sleep(self, *, whole: bool) -> ChildProcess | None:
        """The active one, alone or with its Java and its workers; it does not count as a driver from then on."""
        child = self.active
        driver = None if child is None else tree.find(child.pid)
        if child is None or driver is None:
            return None
        below = tree.descendants(child.pid)
        self.left += below
        self.stopped = [driver, *(below if whole else ())]
        tree.send(self.stopped, signal.SIGSTOP)
        self.children.remove(child)
        self.sleepers.append(child)
        return child

    def wake(self) -> None:
        tree.send(self.stopped, signal.SIGCONT)
        self.stopped = []

    def let_go(self, sleeper: ChildProcess) -> bool:
        """Whether one that was woken has ended by itself; it is ended in any case."""
        has_ended = not sleeper.is_running
        self.sleepers.remove(sleeper)
        if not has_ended:
            self._end(sleeper)
        self._bury(sleeper)
        return has_ended

    def stop(self) -> None:
        """The one at work in good order, after its batches; one that stands by has nothing to end."""
        active = self.active
        for child in self.children:
            if child is not active:
                self._end(child)
        if active is not None:
            active.signal(signal.SIGTERM)
            active.wait_done(STOP_S)

    def outliving(self) -> list[tree.Process]:
        """What is still there of drivers that are gone, after a while."""
        with suppress(TimeoutError):
            wait_until(lambda: not any(map(tree.is_alive, self.left)), LEAVE_S)
        return [each for each in self.left if tree.is_alive(each)]

    def close(self) -> None:
        """Nothing of them is left, whatever happened."""
        self.wake()
        for child in (*self.children, *self.sleepers):
            self.left += tree.descendants(child.pid)
            child.__exit__(None, None, None)
        tree.send(self.left, signal.SIGKILL)

    def _end(self, child: ChildProcess) -> None:
        self.killed.add(child.pid)
        self.left += tree.descendants(child.pid)
        child.kill()

    def _is_active(self, child: ChildProcess) -> bool:
        return (self.active_in / str(child.pid)).exists()

    def _bury(self, child: ChildProcess) -> None:
        (self.active_in / str(child.pid)).unlink(missing_ok=True)
        if child.pid not in self.killed and child.exit_code is not None:
            self.ended[child.exit_code] += 1
        child.__exit__(None, None, None)
