"""When a schedule is due: every so often, at an hour, in a window; on ordinary days and on those that clocks change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sweep import sweep

from towpath.actors.schedules.model import (
    Daily,
    Interval,
    Rhythm,
    Schedule,
    Since,
    Window,
    after_run,
    find_zone,
    next_after,
)
from towpath.core.clock import to_datetime, to_micros
from towpath.errors import BadValue

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")
MADE = datetime(2024, 1, 1, tzinfo=UTC)


def sum_of(pair: tuple[datetime, timedelta]) -> datetime:
    return pair[0] + pair[1]


intervals = st.builds(
    Interval, st.floats(1, 400_000, allow_nan=False).map(lambda x: round(x, 3)), st.sampled_from(Since)
)
dailies = st.builds(Daily, st.integers(0, 23), st.integers(0, 59), st.sampled_from(ZONES))
windows = st.tuples(st.integers(0, 23), st.integers(0, 24), st.sampled_from(ZONES)).filter(
    lambda each: each[0] != each[1]
)
rhythms = st.one_of(intervals, dailies, windows.map(lambda each: Window(*each)))
# Any time in four years, and every second time shortly before a clock changes in Berlin or New York.
CHANGES = [datetime(2024, month, day, tzinfo=UTC) for month, day in ((3, 31), (10, 27), (3, 10), (11, 3))]
moments = st.one_of(
    st.timedeltas(timedelta(days=1), timedelta(days=1460)).map(lambda since: MADE + since),
    st.tuples(st.sampled_from(CHANGES), st.timedeltas(timedelta(days=-2), timedelta(days=1))).map(sum_of),
)


def schedule(rhythm: Rhythm, made: datetime = MADE, last: datetime | None = None) -> Schedule:
    last_us = None if last is None else to_micros(last)
    return Schedule("s", "a", "main", None, {}, rhythm, True, to_micros(made), None, last_us)


def next_of(rhythm: Rhythm, now: datetime, *, made: datetime = MADE, last: datetime | None = None) -> datetime:
    return to_datetime(next_after(schedule(rhythm, made, last), to_micros(now)))


def runs(rhythm: Rhythm, start: datetime, end: datetime) -> Iterator[datetime]:
    """All runs of a schedule whose host is always up, from a start on."""
    now = next_of(rhythm, start, made=start)
    while now < end:
        yield now
        now = to_datetime(after_run(schedule(rhythm, start), to_micros(now)))


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


# Properties


@given(rhythms, moments, st.one_of(st.none(), moments))
def test_never_in_the_past(rhythm: Rhythm, now: datetime, last: datetime | None) -> None:
    last = None if last is None or last > now else last
    assert next_of(rhythm, now, last=last) >= now


@given(rhythms, moments)
def test_after_a_run_the_next_is_later(rhythm: Rhythm, now: datetime) -> None:
    assert after_run(schedule(rhythm), to_micros(now)) > to_micros(now)


@given(rhythms, moments, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_later_is_never_due_earlier(rhythm: Rhythm, now: datetime, more: timedelta) -> None:
    assert next_of(rhythm, now) <= next_of(rhythm, now + more)


@given(rhythms, moments)
def test_nothing_changes_until_it_is_due(rhythm: Rhythm, now: datetime) -> None:
    """Asked again at any time before, the answer is the same: it does not matter who computes it, and when."""
    due = next_of(rhythm, now)
    between = now + (due - now) / 2
    assert between == due or next_of(rhythm, between) == due


@given(dailies, moments)
def test_daily_runs_once_a_day_at_its_time(rhythm: Daily, start: datetime) -> None:
    found = list(runs(rhythm, start, start + timedelta(days=20)))
    zone = find_zone(rhythm.zone)
    assert 19 <= len(found) <= 21
    days = Counter(each.astimezone(zone).date() for each in found)
    assert max(days.values()) == 1
    times = [each.astimezone(zone).replace(second=0) for each in found]
    odd = [each for each in times if (each.hour, each.minute) != (rhythm.hour, rhythm.minute)]
    assert len(odd) <= 1  # the day on which that time is left out


@given(windows, moments)
def test_a_window_is_started_once_and_only_while_it_is_open(given: tuple[int, int, str], start: datetime) -> None:
    rhythm = Window(*given)
    found = list(runs(rhythm, start, start + timedelta(days=20)))
    assert all(rhythm.may_run_at(each) for each in found)
    assert 19 <= len(found) <= 22
    starts = [each.astimezone(find_zone(rhythm.zone)).hour for each in found[1:]]
    assert sum(each != rhythm.from_hour for each in starts) <= 1


@given(intervals, moments)
def test_intervals_are_even(rhythm: Interval, start: datetime) -> None:
    every = timedelta(seconds=rhythm.every_s)
    found = list(runs(rhythm, start, start + every * 6))
    gaps = {later - earlier for earlier, later in zip([start, *found], found, strict=False)}
    assert all(abs(gap - every) <= timedelta(microseconds=10) for gap in gaps)
    assert len(found) in (5, 6)


@given(rhythms, moments, st.timedeltas(timedelta(days=3), timedelta(days=10)))
def test_what_was_missed_is_made_up_for_once(rhythm: Rhythm, now: datetime, outage: timedelta) -> None:
    due = next_of(rhythm, now)
    up_again = due + outage
    following = to_datetime(after_run(schedule(rhythm), to_micros(up_again)))
    assert following > up_again


# Single days


@sweep(
    ("rhythm", "now", "expected"),
    [
        # Berlin, 31 March 2024: after 01:59 comes 03:00. 02:30 is when it would have been.
        (Daily(2, 30, "Europe/Berlin"), utc(2024, 3, 30, 12), utc(2024, 3, 31, 1, 30)),
        (Daily(2, 30, "Europe/Berlin"), utc(2024, 3, 31, 1, 30), utc(2024, 4, 1, 0, 30)),
        (Daily(3, 0, "Europe/Berlin"), utc(2024, 3, 30, 12), utc(2024, 3, 31, 1)),
        # Berlin, 27 October 2024: 02:00 to 03:00 comes twice.
        (Daily(2, 30, "Europe/Berlin"), utc(2024, 10, 26, 12), utc(2024, 10, 27, 0, 30)),
        (Daily(2, 30, "Europe/Berlin"), utc(2024, 10, 27, 0, 30), utc(2024, 10, 28, 1, 30)),
        # New York, 10 March and 3 November 2024.
        (Daily(2, 30, "America/New_York"), utc(2024, 3, 9, 12), utc(2024, 3, 10, 7, 30)),
        (Daily(2, 30, "America/New_York"), utc(2024, 3, 10, 7, 30), utc(2024, 3, 11, 6, 30)),
        (Daily(1, 30, "America/New_York"), utc(2024, 11, 2, 12), utc(2024, 11, 3, 5, 30)),
        (Daily(1, 30, "America/New_York"), utc(2024, 11, 3, 5, 30), utc(2024, 11, 4, 6, 30)),
        # Over midnight of the calendar there, not here.
        (Daily(0, 15, "Asia/Kathmandu"), utc(2024, 5, 1, 18), utc(2024, 5, 1, 18, 30)),
        (Daily(3), utc(2024, 5, 1, 3), utc(2024, 5, 2, 3)),
        (Window(22, 6), utc(2024, 5, 1, 12), utc(2024, 5, 1, 22)),
        (Window(22, 6), utc(2024, 5, 1, 5, 59), utc(2024, 5, 1, 5, 59)),
        (Window(22, 6), utc(2024, 5, 1, 6), utc(2024, 5, 1, 22)),
        (Window(0, 24), utc(2024, 5, 1, 23, 59), utc(2024, 5, 1, 23, 59)),
        (Window(22, 24), utc(2024, 5, 1, 23), utc(2024, 5, 1, 23)),
        (Window(22, 0), utc(2024, 5, 2, 0), utc(2024, 5, 2, 22)),
        # The clock is put forward over the whole window: it is open for its usual time all the same.
        (Window(2, 3, "Europe/Berlin"), utc(2024, 3, 30, 12), utc(2024, 3, 31, 1)),
        (Window(2, 3, "Europe/Berlin"), utc(2024, 3, 31, 1, 59), utc(2024, 3, 31, 1, 59)),
        (Window(2, 3, "Europe/Berlin"), utc(2024, 3, 31, 2), utc(2024, 4, 1, 0)),
        # The clock is put back in it: it is open for longer, and started once.
        (Window(2, 3, "Europe/Berlin"), utc(2024, 10, 27, 1, 59), utc(2024, 10, 27, 1, 59)),
    ],
)
def test_due_at(rhythm: Rhythm, now: datetime, expected: datetime) -> None:
    assert next_of(rhythm, now) == expected


def test_a_window_that_was_used_waits_for_the_next() -> None:
    now = utc(2024, 10, 27, 1, 30)  # the second 02:30 in Berlin
    window = Window(2, 3, "Europe/Berlin")
    assert next_of(window, now, last=utc(2024, 10, 27, 0, 1)) == utc(2024, 10, 28, 1)
    assert next_of(window, now, last=utc(2024, 10, 26, 0, 1)) == now


def test_an_interval_counts_from_when_it_was_made_or_from_its_last_run() -> None:
    made, now = utc(2024, 5, 1, 0), utc(2024, 5, 1, 10, 20)
    last = utc(2024, 5, 1, 10, 15)
    assert next_of(Interval(3600), now, made=made, last=last) == utc(2024, 5, 1, 11)
    assert next_of(Interval(3600, Since.RUN), now, made=made, last=last) == utc(2024, 5, 1, 11, 15)
    assert next_of(Interval(60, Since.RUN), now, made=made, last=last) == now  # changed by hand to a shorter one


def test_a_day_that_a_country_left_out_has_no_run_of_its_own() -> None:
    """Samoa had no 30 December 2011."""
    daily = Daily(9, 0, "Pacific/Apia")
    found = [each.astimezone(ZoneInfo("Pacific/Apia")) for each in runs(daily, utc(2011, 12, 28), utc(2012, 1, 3))]
    assert len(found) == len({each.date() for each in found})
    assert {each.hour for each in found} == {9}


# What is refused


@pytest.mark.parametrize("every", [0.5, 0, -1, float("nan"), float("inf"), 367 * 86_400, "5m", True, None])
def test_bad_intervals(every: Any) -> None:
    with pytest.raises(BadValue, match="366 days"):
        Interval(every)


@pytest.mark.parametrize("since", ["then", None])
def test_bad_since(since: Any) -> None:
    with pytest.raises(BadValue, match=r"'made'.*'run'"):
        Interval(60, since)


@pytest.mark.parametrize("hour", [-1, 24, 3.5, "3", True, None])
def test_bad_hours(hour: Any) -> None:
    with pytest.raises(BadValue, match="23"):
        Daily(hour)
    with pytest.raises(BadValue, match="23"):
        Window(hour, 5)


@pytest.mark.parametrize("minute", [-1, 60, 1.5])
def test_bad_minutes(minute: Any) -> None:
    with pytest.raises(BadValue, match="59"):
        Daily(3, minute)


def test_bad_windows() -> None:
    with pytest.raises(BadValue, match="24"):
        Window(5, 5)
    with pytest.raises(BadValue, match="24"):
        Window(5, 25)


@pytest.mark.parametrize(
    "zone", ["Berlin", "", "../../etc/passwd", "/etc/localtime", "Europe", "\x00", "a" * 10_000, 7]
)
def test_bad_zones(zone: Any) -> None:
    with pytest.raises(BadValue, match="time zone"):
        find_zone(zone)


@pytest.mark.parametrize(
    ("rhythm", "text"),
    [
        (Interval(90), "every 90 s"),
        (Interval(900), "every 15 min"),
        (Interval(7200, Since.RUN), "every 2 h after the last run"),
        (Daily(3, 5, "Europe/Berlin"), "daily at 03:05 Europe/Berlin"),
        (Window(22, 6), "once between 22:00 and 06:00 UTC"),
    ],
)
def test_people_read(rhythm: Rhythm, text: str) -> None:
    assert str(rhythm) == text
