"""Strikes as the plan says, while the clients are at work."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from examples.flights.client import Client

from soak.delivery import tree
from soak.flights.plan import Plan, Strike, Target
from towpath.runtime import Runtime

JAVA = b"java"
LOOK_S = 0.2
WAIT_S = 10.0  # for a victim, before another one comes first
DUTIES = {
    Target.GATEWAY: "gateway",
    Target.DESK: "desk",
    Target.DRIVER: "flow",
    Target.JAVA: "flow",
    Target.WORKER: "flow",
}


@dataclass
class Killer:
    """Goes through the strikes of a plan. One that finds nobody waits for a while, then it is the last one."""

    runtime: Runtime
    clients: Sequence[Client]
    plan: Plan
    hit: Counter[Target] = field(default_factory=Counter)
    _left: list[Strike] = field(default_factory=list)
    _due_s: float = 0.0

    def __post_init__(self) -> None:
        self._left = self.plan.strikes()[::-1]
        self._due_s = time.monotonic() + self._left[-1].after_s if self._left else 0.0

    @property
    def is_done(self) -> bool:
        return not self._left

    def turn(self) -> None:
        """Called again and again: strikes when it is time."""
        now = time.monotonic()
        if self._left and now >= self._due_s:
            if self._strike(self._left[-1]):
                self.hit[self._left.pop().target] += 1
                self._due_s = now + (self._left[-1].after_s if self._left else 0.0)
            elif now >= self._due_s + WAIT_S:
                self._left.insert(0, self._left.pop())
                self._due_s = now
        time.sleep(LOOK_S)

    def _strike(self, strike: Strike) -> bool:
        """Whether there was somebody to hit."""
        if strike.target is Target.CLIENT:
            return self.clients[int(strike.chance * len(self.clients))].kill()
        pids = self._pids(strike.target)
        return bool(pids) and _kill(pids[int(strike.chance * len(pids))])

    def _pids(self, target: Target) -> list[int]:
        if target is Target.PEER:
            peers = self._of_kind("peer")
            return peers if len(peers) > 1 else []  # nobody would be left to start the others
        found = self._of_kind(DUTIES[target])
        if target is Target.WORKER:
            return [worker.pid for pid in found for worker in tree.workers(pid)]
        if target is Target.JAVA:
            return [each.pid for pid in found for each in tree.descendants(pid) if _is_java(each)]
        return found

    def _of_kind(self, kind: str) -> list[int]:
        """Numbers of the processes that do duties of a kind, by name."""
        found = self.runtime.duties.overview()
        rows = [(duty.name, found.processes.get(duty.process_id or "")) for duty in found.duties if duty.kind == kind]
        return [row.pid for _, row in sorted(rows) if row is not None and row.state == "alive"]


def _is_java(process: tree.Process) -> bool:
    return process.command.split(b"\0")[0].endswith(JAVA)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False  # it died by itself, or was killed and nobody has noticed yet
    return True
