"""How long to wait before the next try: twice as long each time, up to a limit, spread so that not all come at once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Self

from towpath.clock import MICROS
from towpath.settings import FlowSettings

JITTER = 0.35
_MOST_DOUBLINGS = 60  # beyond every limit, and still a number that a float can hold


@dataclass(frozen=True, slots=True)
class Waits:
    """From `least_s`, doubling, to `most_s`, each 35 % more or less by chance; without end."""

    least_s: float
    most_s: float
    rng: random.Random

    @classmethod
    def of(cls, settings: FlowSettings, rng: random.Random) -> Self:
        return cls(settings.retry_least_s, settings.retry_most_s, rng)

    def before(self, attempt: int) -> int:
        """Microseconds to wait after the attempt of that number, from 1, has failed."""
        middle_s = min(self.most_s, self.least_s * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS))
        return round(middle_s * self.rng.uniform(1 - JITTER, 1 + JITTER) * MICROS)
