"""What one run is to do: who is struck, in which order, after which pauses. The seed decides all of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Target(StrEnum):
    """Who is struck, always with SIGKILL."""

    GATEWAY = "gateway"  # takes uploads and gives out results
    DRIVER = "driver"  # of the flow; its Java process and its workers end with it
    JAVA = "java"  # the Java process of the driver
    WORKER = "worker"  # a Python process that runs tasks
    DESK = "desk"
    PEER = "peer"
    CLIENT = "client"  # what a client does just now: send, or receive


# A client is back at once, a driver takes many seconds. Two peers may be down: the third starts them again.
SHARES = {
    Target.CLIENT: 0.3,
    Target.GATEWAY: 0.22,
    Target.WORKER: 0.12,
    Target.DRIVER: 0.13,
    Target.PEER: 0.1,
    Target.DESK: 0.07,
    Target.JAVA: 0.06,
}


LINE_BYTES = 32  # on average
SENDING_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Strike:
    """After a pause, one of a kind; `chance`, from 0 to 1, decides which."""

    after_s: float
    target: Target
    chance: float


@dataclass(frozen=True, slots=True)
class Plan:
    """So many kills, with a pause of so many seconds between two on average."""

    kills: int
    seed: int
    rows: int = 100_000  # itineraries of each client
    clients: int = 3
    pause_s: float = 6.0
    airports: int = 500  # that a client sends before: few, so that it soon comes to the itineraries

    @property
    def bytes_per_s(self) -> int:
        """That a client may send: so slow that it is at it for most of the kills, and receives under the last ones."""
        return max(1_000, round((self.rows + self.airports) * LINE_BYTES / (SENDING_SHARE * self.kills * self.pause_s)))

    def strikes(self) -> list[Strike]:
        """The same for the same plan: each kind at least once, where there are as many kills as kinds."""
        draw = random.Random(self.seed)
        kinds, weights = list(SHARES), list(SHARES.values())
        targets = [*kinds, *draw.choices(kinds, weights, k=max(0, self.kills - len(kinds)))][: self.kills]
        draw.shuffle(targets)
        return [Strike(draw.uniform(0, 2 * self.pause_s), target, draw.random()) for target in targets]
