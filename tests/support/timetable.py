"""A process whose scheduler and host go round only when a test says so, at a time that the test has set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.actors import Count, Counter, Doer, Sleeper
from tests.support.quiet import Quiet

from towpath.actors.engine.host import Host
from towpath.actors.schedules.model import Rhythm
from towpath.core.clock import to_datetime
from towpath.queue import Message
from towpath.testing.clock import wait_until

MONDAY = datetime(2030, 5, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
BY_ANN: dict[str, Any] = {"who": "ann", "why": "a test"}


class Timetable:
    """A process that knows actors, and whose scheduler and host go round only when they are told."""

    def __init__(self, quiet: Quiet) -> None:
        self.database = quiet.database
        self.actors = quiet.runtime.actors
        self.actors.register(Counter, Doer, Sleeper)
        self.schedules = self.actors.schedules
        self.host: Host = self.actors.host()
        self.set(MONDAY)

    @property
    def now(self) -> datetime:
        return to_datetime(self.database.now())

    def set(self, time: datetime) -> None:
        self.database.shift_clock((time - self.now).total_seconds())

    def add(self, rhythm: Rhythm, name: str = "tick", **more: Any) -> None:
        self.schedules.add(name, **{"actor": Counter, "state": Count(1), "rhythm": rhythm, **BY_ANN, **more})

    def look(self, time: datetime) -> int:
        """Let the scheduler look at a time, a little after that; how much it did.

        What was added at the beginning is due as much later as a busy machine took until it was added.
        """
        self.set(time + timedelta(seconds=20))
        return self.host.scheduler.run_once().done

    def settle(self) -> None:
        """Let the host run what was started to its end."""

        def is_over() -> bool:
            self.host.run_once()
            return all(not each.is_live for each in self.actors.instances()) and not self.waiting

        wait_until(is_over, timeout_s=30)

    @property
    def waiting(self) -> list[Message]:
        return [each for each in self.starts() if each.state == "NEW"]

    def starts(self, actor: str = "counter") -> list[Message]:
        return [each for each in self.actors.history(actor)[::-1] if each.related_id is None]


@pytest.fixture
def table(quiet: Quiet) -> Iterator[Timetable]:
    Doer.actions.clear()
    made = Timetable(quiet)
    yield made
    made.host.on_stop()
