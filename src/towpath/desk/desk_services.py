"""All that the desk does by itself, in one process: intake, relay, replayer, bulk jobs, notifications and upkeep.

Any number of processes may run it. They share the work: intakes by positions, relays and lanes by claims, jobs as
actors do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.clock import MICROS
from towpath.db import Database, Queries
from towpath.desk.desk_part import PULLING, DeskPart
from towpath.errors import TowpathError
from towpath.service import Service

QUIET_ROUNDS = 2  # in a row, before it counts as idle
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class DeskStatus:
    """The desk in a few numbers."""

    cases: dict[str, int]  # by state
    to_send: int
    next_due_s: float | None  # until the first of what waits is due
    jobs: int

    def to_json(self) -> dict[str, Any]:
        due = None if self.next_due_s is None else round(self.next_due_s, 3)
        return {"cases": self.cases, "to_send": self.to_send, "next_due_s": due, "jobs": self.jobs}


class DeskServices:
    """`pulling` are those that move records, in the order of a record's way; `around` is all the rest."""

    def __init__(self, database: Database, parts: Mapping[DeskPart, Sequence[Service]]) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "services", database.dialect)
        self.pulling = tuple(service for part in PULLING for service in parts.get(part, ()))
        self.around = tuple(service for part in parts if part not in PULLING for service in parts[part])

    @property
    def all(self) -> tuple[Service, ...]:
        return (*self.pulling, *self.around)

    def start(self) -> None:
        for service in self.all:
            service.start()

    def stop(self, grace_s: float) -> list[str]:
        """End all of them at once; returns the names of those that have not ended within the grace period."""
        deadline = time.monotonic() + grace_s
        left: list[str] = []

        def stop(service: Service) -> None:
            try:
                service.stop(max(0.1, deadline - time.monotonic()))
            except TowpathError:
                left.append(service.name)

        threads = [threading.Thread(target=stop, args=(each,), daemon=True) for each in self.all]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return left

    def run_until_idle(self, is_over: Callable[[], bool], tick: Callable[[], None] = lambda: None) -> None:
        """Take in, send and release until there is nothing to do now, or it is to be over. What is not due is left."""
        for service in self.around:
            service.start()
        quiet = 0
        while quiet < QUIET_ROUNDS and not is_over():
            done = sum(service.run_once().done for service in self.pulling)
            is_busy = done > 0 or self.status().jobs > 0
            quiet = 0 if is_busy else quiet + 1
            tick()
            if not done:
                time.sleep(LOOK_S)
        for service in self.pulling:
            service.on_stop()

    def status(self) -> DeskStatus:
        """How the desk is now."""
        with self._database.read() as tx:
            cases = {state: int(count) for state, count in tx.rows(self._sql["states"], {}) if count}
            [[to_send]] = tx.rows(self._sql["to_send"], {})
            [[due_at]] = tx.rows(self._sql["next_due"], {})
            [[jobs]] = tx.rows(self._sql["jobs_at_work"], {})
        due_s = None if due_at is None else (due_at - self._database.now()) / MICROS
        return DeskStatus(cases, to_send, due_s, jobs)
