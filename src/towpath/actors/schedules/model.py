"""A schedule: which actor is started, when (`Interval`, `Daily`, `Window`), and what came of its last run. Pure.

Hours are local time in a time zone. On the day on which clocks are put forward, an hour that is left out is taken to
come when it would have been; on the day on which they are put back, the first of two equal hours counts. Either way
there is one run on that day.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from towpath.core.clock import to_datetime, to_micros
from towpath.errors import BadValue

SHORTEST_S = 1.0
LONGEST_S = 366 * 86_400.0
_DAY = timedelta(days=1)


class ScheduleOutcome(StrEnum):
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
    outcome: ScheduleOutcome = ScheduleOutcome.NONE
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


class Since(StrEnum):
    """From when an interval counts."""

    MADE = "made"  # from when the schedule was made: a run that came late does not move the next one
    RUN = "run"  # from the last run


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many seconds."""

    every_s: float
    since: Since = Since.MADE

    def __post_init__(self) -> None:
        if not _is_number(self.every_s) or not SHORTEST_S <= self.every_s <= LONGEST_S:
            raise BadValue(f"an interval is between 1 second and 366 days, in seconds; {self.every_s!r} is not")
        if self.since not in tuple(Since):
            raise BadValue(f"an interval counts since 'made' or since 'run', not since {self.since!r}")

    def __str__(self) -> str:
        return f"every {_duration(self.every_s)}" + (" after the last run" if self.since == Since.RUN else "")

    def next_after(self, now: datetime, made: datetime, last: datetime | None) -> datetime:
        every = timedelta(seconds=self.every_s)
        if self.since == Since.RUN:
            return max((last or made) + every, now)
        return made + every * max((now - made) // every + 1, 1)

    def may_run_at(self, now: datetime) -> bool:
        """Whenever it is due: one that was missed is made up for."""
        return True


@dataclass(frozen=True, slots=True)
class Daily:
    """Every day at a time on the clock."""

    hour: int
    minute: int = 0
    zone: str = "UTC"

    def __post_init__(self) -> None:
        _check_hour(self.hour, 23, "hour")
        if not _is_whole(self.minute) or not 0 <= self.minute <= 59:
            raise BadValue(f"a minute is a number from 0 to 59; {self.minute!r} is not")

    def __str__(self) -> str:
        return f"daily at {self.hour:02}:{self.minute:02} {self.zone}"

    def next_after(self, now: datetime, made: datetime, last: datetime | None) -> datetime:
        zone = find_zone(self.zone)
        times = (_instant(day, self.hour, self.minute, zone) for day in _days_around(now, zone))
        return next(time for time in times if time > now)

    def may_run_at(self, now: datetime) -> bool:
        """Whenever it is due: one that was missed is made up for."""
        return True


@dataclass(frozen=True, slots=True)
class Window:
    """Once in the time from one hour to another, also over midnight; up to hour 24 is up to midnight."""

    from_hour: int
    to_hour: int
    zone: str = "UTC"

    def __post_init__(self) -> None:
        _check_hour(self.from_hour, 23, "first hour")
        _check_hour(self.to_hour, 24, "last hour")
        if self.from_hour == self.to_hour:
            raise BadValue(f"a window from {self.from_hour} to {self.to_hour} is empty; the whole day is from 0 to 24")

    def __str__(self) -> str:
        return f"once between {self.from_hour:02}:00 and {self.to_hour:02}:00 {self.zone}"

    def next_after(self, now: datetime, made: datetime, last: datetime | None) -> datetime:
        """At once, if the window is open and nothing was run in it; otherwise when it opens."""
        for opens, closes in self._around(now):
            if opens > now:
                return opens
            if now < closes and (last is None or last < opens):
                return now
        raise AssertionError("a window opens every day")

    def may_run_at(self, now: datetime) -> bool:
        """Only while it is open: one that was missed waits for the next."""
        return any(opens <= now < closes for opens, closes in self._around(now))

    def _around(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        zone = find_zone(self.zone)
        usual = timedelta(hours=(self.to_hour - self.from_hour) % 24 or 24)
        for day in _days_around(now, zone):
            opens = _instant(day, self.from_hour, 0, zone)
            last_day = day if self.to_hour > self.from_hour else day + _DAY
            closes = _instant(last_day + _DAY * (self.to_hour // 24), self.to_hour % 24, 0, zone)
            # A clock that is put forward over the whole of it would leave nothing of it.
            yield opens, closes if closes > opens else opens + usual


Rhythm = Interval | Daily | Window


def find_zone(name: str) -> tzinfo:
    """The time zone of that name; raises `BadValue`."""
    if name == "UTC":
        return UTC  # also where there is no data on time zones
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise BadValue(
            f"this machine knows no time zone {name!r}; one is called like 'Europe/Berlin', or 'UTC'"
        ) from error


def _days_around(now: datetime, zone: tzinfo) -> Iterator[date]:
    """Days on the calendar there, from before any that `now` can lie in until after the next."""
    today = now.astimezone(zone).date()
    return (today + _DAY * n for n in range(-2, 5))


def _instant(day: date, hour: int, minute: int, zone: tzinfo) -> datetime:
    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)  # fold=0: the first of two
    return local.astimezone(UTC)


def _check_hour(hour: Any, most: int, what: str) -> None:
    if not _is_whole(hour) or not 0 <= hour <= most:
        raise BadValue(f"the {what} is a number from 0 to {most}; {hour!r} is not")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
