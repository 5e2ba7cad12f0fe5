"""What one run is to do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """So many seconds of strikes; the seed decides when they come and whom they hit."""

    seconds: float
    seed: int
    pause_s: tuple[float, float] = (10.0, 20.0)
    least_batches: int = 20  # fewer during the strikes: nothing was under way, and the run proves nothing
    records_per_s: float = 20.0
    runs_per_s: float = 0.5  # of actors

    def strikes(self) -> Iterator[float]:
        """When each comes, in seconds from the first moment at which everything was up."""
        draw = random.Random(self.seed)
        at = draw.uniform(*self.pause_s)
        while at < self.seconds:
            yield at
            at += draw.uniform(*self.pause_s)


def chosen(living: list[tuple[str, str]], seed: int, strike: int) -> list[str]:
    """The names of half of those `(name, kind)` that live; one peer, by chance, is never among them."""
    draw = random.Random(f"{seed}/{strike}")
    peers = sorted(name for name, kind in living if kind == "peer")
    spared = draw.choice(peers) if peers else ""
    rest = sorted(name for name, _ in living if name != spared)
    return sorted(draw.sample(rest, min(len(rest), (len(living) + 1) // 2)))
