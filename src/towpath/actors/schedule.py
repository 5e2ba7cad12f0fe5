"""A schedule: which actor is started, when, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.actors.schedule_rhythm import Rhythm
from towpath.clock import to_datetime, to_micros


class Outcome(StrEnum):
    """What came of the last run."""

    NONE = "none"  # it has never been started
    SENT = "sent"  # its start waits for a host that lets it in
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    REFUSED = "refused"  # the start was not let in
    FORGOTTEN = "forgotten"  # its messages are past their retention time


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as its row has it, with what is known of its last run and of its actor."""

    name: str
    actor: str
    instance: str
    state: str | None  # none: the first one
    payload: Any
    rhythm: Rhythm
    is_enabled: bool
    made_us: int
    next_us: int | None  # none: it is disabled
    last_us: int | None = None
    last_run: str | None = None  # the id of the message that started it
    skipped: int = 0  # how often it was due since then and nothing was sent
    skip_reason: str | None = None
    outcome: Outcome = Outcome.NONE
    reason: str | None = None  # why it failed or was refused
    warning: str | None = None  # why it will not run as things are

    @property
    def made_at(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def next_at(self) -> datetime | None:
        return None if self.next_us is None else to_datetime(self.next_us)

    @property
    def last_at(self) -> datetime | None:
        return None if self.last_us is None else to_datetime(self.last_us)


def next_after(schedule: Schedule, now_us: int) -> int:
    """When it is due next, now or later; after a run, `after_run` says it. Raises `BadValue` for an unknown zone."""
    return to_micros(schedule.rhythm.next_after(to_datetime(now_us), schedule.made_at, schedule.last_at))


def after_run(schedule: Schedule, now_us: int) -> int:
    """When it is due next if it has its turn now: always later."""
    return next_after(replace(schedule, last_us=now_us), now_us)
