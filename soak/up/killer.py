"""Kills half of what lives, now and then."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from soak.up.plan import Plan, chosen
from towpath.runtime import Runtime

LOOK_S = 0.5


@dataclass
class Killer:
    """Strikes as the plan says; counts whom it has hit."""

    runtime: Runtime
    plan: Plan
    hit: Counter[str] = field(default_factory=Counter)  # by kind
    strikes: int = 0

    def run(self, watch: Callable[[float], None]) -> None:
        began = time.monotonic()
        for at in self.plan.strikes():
            self._wait(began, at, watch)
            self.strike()
        self._wait(began, self.plan.seconds, watch)

    def _wait(self, began: float, until_s: float, watch: Callable[[float], None]) -> None:
        while (passed_s := time.monotonic() - began) < until_s:
            watch(passed_s)
            time.sleep(min(LOOK_S, until_s - passed_s))

    def strike(self) -> None:
        self.strikes += 1
        living = self._living()
        kinds = {name: kind for name, kind, _ in living}
        pids = {name: pid for name, _, pid in living}
        for name in chosen(list(kinds.items()), self.plan.seed, self.strikes):
            try:
                os.kill(pids[name], signal.SIGKILL)
            except ProcessLookupError:
                continue  # it died by itself, or was killed and nobody has noticed yet
            self.hit[kinds[name]] += 1

    def _living(self) -> list[tuple[str, str, int]]:
        """Name, kind and number of each process that does a duty."""
        found = self.runtime.duties.overview()
        rows = [(duty, found.processes.get(duty.process_id or "")) for duty in found.duties]
        return [(duty.name, duty.kind, row.pid) for duty, row in rows if row is not None and row.state == "alive"]
