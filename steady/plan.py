"""What a seed decides: when processes are stopped, and which of those that run then."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

STOP_S = 3.0
PAUSE_S = 6.0  # between two strikes, on average
TWO_SHARE = 0.25  # of the strikes hit two processes at once

Chosen = TypeVar("Chosen")
Identity = tuple[int, int]  # a number is given to others later; with the time of its start it is unique


@dataclass(frozen=True, slots=True)
class Strike:
    """After a pause, one process or two. Each has two chances from 0 to 1: which program, and which process of it."""

    after_s: float
    chances: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Running:
    """A process of this machine, as it was when we looked."""

    pid: int
    started: int
    parent: int
    program: str
    is_marked: bool = field(default=False, kw_only=True)  # carries the variable of this round
    is_stopped: bool = field(default=False, kw_only=True)
    is_held: bool = field(default=False, kw_only=True)  # a test has stopped it, or is about to

    @property
    def identity(self) -> Identity:
        return self.pid, self.started


def seed_of(first: int, number: int) -> int:
    """The seed of a round, from that of all rounds."""
    return random.Random(f"{first}/{number}").randrange(10**6)


def strikes(seed: int, pause_s: float = PAUSE_S) -> Iterator[Strike]:
    """Without end, the same for the same seed."""
    draw = random.Random(seed)
    while True:
        hit = 2 if draw.random() < TWO_SHARE else 1
        after_s = draw.uniform(0, 2 * pause_s)
        yield Strike(after_s, tuple((draw.random(), draw.random()) for _ in range(hit)))


def family(root: int, running: Sequence[Running], known: Collection[Identity] = ()) -> list[Running]:
    """The pytest process with all below it: children, their children, and those that have lost their parents.

    The latter carry the variable of the round. Who has a clean environment, too, is known from an earlier look.
    """
    children: dict[int, list[Running]] = defaultdict(list)
    for each in running:
        children[each.parent].append(each)
    found: dict[int, Running] = {}
    line = [each for each in running if each.pid == root or each.is_marked or each.identity in known]
    for each in line:  # grows meanwhile
        if each.pid not in found:
            found[each.pid] = each
            line += children[each.pid]
    return sorted(found.values(), key=lambda each: (each.started, each.pid))


def victims(strike: Strike, root: int, tree: Sequence[Running]) -> list[Running]:
    """Whom a strike hits. One that stands still already, for the test or for us, is left alone.

    The program is chosen first, and the pytest process counts as one by itself: PostgreSQL alone has ten processes, and
    would have most of the strikes.
    """
    left = [each for each in tree if not each.is_stopped and not each.is_held]
    hit: list[Running] = []
    for which_program, which_process in strike.chances:
        programs: dict[str, list[Running]] = defaultdict(list)
        for each in left:
            programs["pytest" if each.pid == root else each.program].append(each)
        if not programs:
            break
        of_program = programs[_chosen(sorted(programs), which_program)]
        victim = _chosen(of_program, which_process)
        hit.append(victim)
        left.remove(victim)
    return hit


def _chosen(among: Sequence[Chosen], chance: float) -> Chosen:
    return among[min(int(chance * len(among)), len(among) - 1)]
