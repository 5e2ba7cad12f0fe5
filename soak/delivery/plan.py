"""What one run is to do: who is struck, in which order, after which pauses. The seed decides all of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

AT_ONCE_SHARE = 0.2  # of the strikes: while others still recover from the one before
AT_ONCE_S = 0.5
SLEEPS = 0.05  # for each kill, beside them


class Target(StrEnum):
    """Who is struck. All are killed by SIGKILL, but for the sleeper."""

    WORKER = "worker"  # a Python process that runs tasks
    DRIVER = "driver"
    POSTGRES = "postgres"  # the table's database and Towpath's own
    KAFKA = "kafka"
    SLEEPER = "sleeper"  # a driver that is stopped until another has its place, and then wakes up


# A worker is back at once, a broker takes many seconds.
SHARES = {Target.WORKER: 0.5, Target.DRIVER: 0.3, Target.POSTGRES: 0.12, Target.KAFKA: 0.08}


@dataclass(frozen=True, slots=True)
class Strike:
    """After a pause, one of a kind; `chance`, from 0 to 1, decides what is left open."""

    after_s: float
    target: Target
    chance: float

    @property
    def is_at_once(self) -> bool:
        """Whether it comes in the recovery from the one before, if that takes any time."""
        return self.after_s < AT_ONCE_S


@dataclass(frozen=True, slots=True)
class Plan:
    """So many kills, over about so many seconds."""

    kills: int
    seconds: float
    seed: int
    records_per_s: int = 30
    delivery: str = "exactly-once"  # with less the verdict has to find something: so it is seen that it can

    def strikes(self) -> list[Strike]:
        """The same for the same plan."""
        chance = random.Random(self.seed)
        targets = list(counts(self.kills).elements())
        chance.shuffle(targets)
        # All pauses together take the time of the plan.
        longest_s = 2 * max(0.0, self.seconds / len(targets) - AT_ONCE_SHARE * AT_ONCE_S / 2) / (1 - AT_ONCE_SHARE)
        return [
            Strike(
                chance.uniform(0, AT_ONCE_S if chance.random() < AT_ONCE_SHARE else longest_s),
                target,
                chance.random(),
            )
            for target in targets
        ]


def counts(kills: int) -> Counter[Target]:
    """How many strikes of each kind: as many kills as asked for, and some sleepers beside them."""
    found: Counter[Target] = Counter()
    for target, share in SHARES.items():
        if found.total() < kills:
            found[target] = max(1, int(kills * share))
    found[Target.WORKER] += kills - found.total()
    found[Target.SLEEPER] = int(kills * SLEEPS)
    return found
