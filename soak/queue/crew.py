"""The processes of the soak: started, killed by chance, started again."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from towpath.db.processes import EXIT_CODE_DEAD
from towpath.testing.processes import ChildProcess

Start = Callable[[], ChildProcess]


@dataclass
class Place:
    """A place in the crew, and who fills it now. One whose work is done stays empty."""

    role: str
    start: Start
    child: ChildProcess
    is_done: bool = False


@dataclass
class Crew:
    """Fills every place until its holder ends well."""

    chance: random.Random
    places: list[Place] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)
    kills: Counter[str] = field(default_factory=Counter)
    gave_up: set[int] = field(default_factory=set)  # ended by themselves, and not well
    declared_dead: set[int] = field(default_factory=set)  # alive, and told by another that they are dead

    def add(self, role: str, start: Start) -> None:
        self.places.append(Place(role, start, start()))

    def refill(self) -> None:
        """Start again whoever is gone and not done."""
        for place in self.places:
            if place.is_done or place.child.is_running:
                continue
            code = place.child.exit_code
            if code == 0:
                place.is_done = True
                continue
            if code == EXIT_CODE_DEAD:
                self.declared_dead.add(place.child.pid)
            elif place.child.pid not in self.killed:
                self.gave_up.add(place.child.pid)
            place.child.__exit__(None, None, None)
            place.child = place.start()

    def kill_one(self, role: str) -> None:
        alive = [place for place in self.places if place.role == role and place.child.is_running]
        if alive:
            place = self.chance.choice(alive)
            self.killed.add(place.child.pid)
            self.kills[role] += 1
            place.child.kill()

    def is_done(self, role: str) -> bool:
        return all(place.is_done for place in self.places if place.role == role)

    def dismiss(self, role: str) -> None:
        """Ask them to end, and see that they do so in order."""
        leaving = [place for place in self.places if place.role == role and not place.is_done]
        for place in leaving:
            place.child.signal(signal.SIGTERM)
        for place in leaving:
            place.child.wait_done()
            place.is_done = True

    def pids(self) -> set[int]:
        return {place.child.pid for place in self.places}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self.places:
            place.child.__exit__(kind, error, trace)
