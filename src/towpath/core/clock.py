"""Local time, given to code instead of taken by it. Leases and due times go by the database's time, not by this."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from typing import Protocol

MICROS = 1_000_000


class Clock(Protocol):
    """A reading that only grows, for measuring how long something took."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""


class SystemClock:
    """The machine's own clock, counting also the time for which the machine slept."""

    _ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        return time.clock_gettime(self._ID)


def to_datetime(micros: int) -> datetime:
    """The aware UTC time of a stored number of microseconds since 1970."""
    return datetime.fromtimestamp(micros / MICROS, tz=UTC)


def to_micros(time: datetime) -> int:
    """The number of microseconds since 1970 by which such a time is stored."""
    return (time - datetime.fromtimestamp(0, tz=UTC)) // timedelta(microseconds=1)


def parse_date_or_time(text: str) -> date | datetime:
    """A date in ISO format, or a time; raises `ValueError`."""
    return date.fromisoformat(text) if len(text) == len("2027-01-31") else datetime.fromisoformat(text)


def to_millisecond(at: datetime) -> datetime:
    """The time cut to milliseconds, which is all that records know: orders times of tables among those of records."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
