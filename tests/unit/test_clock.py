"""Local time and how stored times are read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from towpath.core.clock import SystemClock, to_datetime, to_micros, to_millisecond
from towpath.testing.clock import SettableClock


def test_system_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1_000)]
    assert readings == sorted(readings)


def test_stored_times_are_aware_utc_to_the_microsecond() -> None:
    assert to_datetime(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert to_datetime(1_700_000_000_123_457) == datetime(2023, 11, 14, 22, 13, 20, 123457, tzinfo=UTC)


@pytest.mark.parametrize("micros", [1, 999_999, 1_893_456_000_000_001, 4_102_444_799_999_999])
def test_no_microsecond_is_lost(micros: int) -> None:
    at = to_datetime(micros)
    assert (at - datetime(1970, 1, 1, tzinfo=UTC)) // type(at - at)(microseconds=1) == micros


def test_settable_clock_stands_still_and_only_goes_forward() -> None:
    clock = SettableClock(5.0)
    assert clock.monotonic() == clock.monotonic() == 5.0
    clock.advance(2.5)
    assert clock.monotonic() == 7.5
    with pytest.raises(ValueError, match="1 s"):
        clock.advance(-1)


def test_a_record_of_the_same_millisecond_is_not_earlier_than_a_row() -> None:
    row = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    record = to_datetime(to_micros(row) // 1000 * 1000)  # records know milliseconds only
    assert record < row
    assert to_millisecond(row) == to_millisecond(record) == record
