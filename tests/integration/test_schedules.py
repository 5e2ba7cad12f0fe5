"""Schedules on both databases: when they start what, with the clock of the database in the test's hands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.actors import Count, Counter
from tests.support.quiet import Quiet
from tests.support.tables import events
from tests.support.timetable import BY_ANN, DAY, HOUR, MONDAY, Timetable

from towpath.actors.schedules.model import Daily, Interval, Rhythm, Schedule, ScheduleOutcome, Since, Window
from towpath.actors.schedules.scheduler import ScheduleStore
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


def test_an_interval(table: Timetable) -> None:
    table.add(Interval(3600))
    assert abs(table.schedules.show("tick").next_at - (MONDAY + HOUR)) < timedelta(minutes=1)  # type: ignore[operator]
    assert table.look(MONDAY + HOUR / 2) == 0
    assert table.look(MONDAY + HOUR) == 1
    assert table.look(MONDAY + HOUR) == 0
    table.settle()
    [start] = table.starts()
    assert (start.function, start.payload, start.state) == ("Count", {"upto": 1, "n": 0}, "OK")
    assert start.headers == {"towpath.schedule": "tick"}
    found = table.schedules.show("tick")
    assert (found.last_run, found.outcome, found.skipped) == (start.id, ScheduleOutcome.ENDED, 0)
    assert found.last_at is not None
    assert found.next_at is not None
    assert abs(found.next_at - (MONDAY + 2 * HOUR)) < timedelta(minutes=1)
    assert table.look(MONDAY + 2 * HOUR) == 1
    assert len(table.starts()) == 2


@pytest.mark.parametrize("rhythm", [Interval(3600), Interval(3600, Since.RUN), Daily(3), Window(0, 24)], ids=str)
def test_three_days_nobody_was_up(table: Timetable, rhythm: Rhythm) -> None:
    """What was missed is run once, not so many times."""
    table.add(rhythm)
    back = MONDAY + 3 * DAY + HOUR / 2
    assert table.look(back) == 1
    assert table.look(back) == 0
    assert len(table.starts()) == 1
    found = table.schedules.show("tick")
    assert found.next_at is not None
    assert table.now < found.next_at <= table.now + DAY + timedelta(minutes=1)


def test_daily_over_a_change_of_the_clock(table: Timetable) -> None:
    """In Berlin there is no 02:30 on 31 March 2030, and there are two on 27 October."""
    sent: list[datetime] = []
    for year_day in (datetime(2030, 3, 30, tzinfo=UTC), datetime(2030, 10, 26, tzinfo=UTC)):
        table.set(year_day)
        table.add(Daily(2, 30, "Europe/Berlin"), name=f"berlin-{year_day:%m}", instance=f"i{year_day:%m}")
        for minutes in range(0, 3 * 24 * 60, 30):
            if table.look(year_day + timedelta(minutes=minutes)):
                sent.append(year_day + timedelta(minutes=minutes))
        table.schedules.enable(f"berlin-{year_day:%m}", False, **BY_ANN)
    assert [each.strftime("%m-%d %H:%M") for each in sent] == [
        "03-30 01:30",
        "03-31 01:30",
        "04-01 00:30",
        "10-26 00:30",
        "10-27 00:30",
        "10-28 01:30",
    ]


def test_a_window_whose_start_was_missed(table: Timetable) -> None:
    table.set(MONDAY + 12 * HOUR)
    table.add(Window(22, 6))
    assert table.look(MONDAY + 22 * HOUR - HOUR / 2) == 0
    late = MONDAY + 29 * HOUR  # Tuesday, 05:00: it is still open
    assert table.look(late) == 1
    assert len(table.starts()) == 1
    assert table.look(late + HOUR / 2) == 0
    assert table.schedules.show("tick").next_at == MONDAY + 46 * HOUR


def test_a_window_that_is_over_waits_for_the_next(table: Timetable) -> None:
    table.set(MONDAY + 12 * HOUR)
    table.add(Window(22, 6))
    table.look(MONDAY + 31 * HOUR)  # Tuesday, 07:00
    assert table.starts() == []
    found = table.schedules.show("tick")
    assert (found.next_at, found.last_at, found.skipped) == (MONDAY + 46 * HOUR, None, 1)
    assert found.skip_reason
    [event] = events(table.database, "schedule_skipped")
    assert (event["subject"], event["why"]) == ("tick", found.skip_reason)
    assert table.look(MONDAY + 46 * HOUR) == 1
    assert len(table.starts()) == 1
    assert table.schedules.show("tick").skip_reason is None


def test_added_while_its_window_is_open(table: Timetable) -> None:
    table.set(MONDAY + 23 * HOUR)
    table.add(Window(22, 6))
    assert table.look(MONDAY + 23 * HOUR) == 1
    assert table.look(MONDAY + 24 * HOUR) == 0
    table.schedules.enable("tick", False, **BY_ANN)
    table.schedules.enable("tick", True, **BY_ANN)
    assert table.look(MONDAY + 25 * HOUR) == 0  # it was started in this window already


def test_the_first_state_by_default(table: Timetable) -> None:
    table.schedules.add("c", "counter", Interval(60), payload={"upto": 2}, **BY_ANN)
    table.schedules.add("s", "sleeper", Interval(60), state="Awake", **BY_ANN)
    table.look(MONDAY + HOUR)
    assert [(each.function, each.payload) for each in table.starts()] == [("Count", {"upto": 2})]
    assert [(each.function, each.payload) for each in table.starts("sleeper")] == [("Awake", {})]


def test_a_disabled_actor_waits_and_is_run_once(table: Timetable) -> None:
    table.add(Interval(3600))
    table.actors.enable("counter", False, **BY_ANN)
    assert table.look(MONDAY + 5 * HOUR) == 0
    assert "`towpath actor enable counter`" in (table.schedules.show("tick").warning or "")
    table.actors.enable("counter", True, **BY_ANN)
    assert table.look(MONDAY + 5 * HOUR) == 1
    assert table.look(MONDAY + 5 * HOUR) == 0
    assert len(table.starts()) == 1


def test_two_processes_send_one_start(make_quiet: Callable[..., Quiet], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have read that it is due before either of them takes it."""
    tables = [Timetable(make_quiet()), Timetable(make_quiet())]
    tables[0].add(Interval(3600))
    tables[0].set(MONDAY + HOUR + timedelta(minutes=1))
    wait_until(lambda: tables[1].now > MONDAY + HOUR)
    both_have_read = threading.Barrier(2, timeout=30)
    found = ScheduleStore.due

    def due(*args: Any) -> Iterable[Schedule]:
        read = list(found(*args))
        both_have_read.wait()
        return read

    monkeypatch.setattr(ScheduleStore, "due", due)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda table: table.host.scheduler.run_once().done, tables))
    assert sorted(done) == [0, 1]
    assert len(tables[0].starts()) == 1


def test_changed_by_hand_between_look_and_take(table: Timetable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add(Interval(3600))
    found = ScheduleStore.due

    def due(*args: Any) -> Iterable[Schedule]:
        return list(found(*args))

    def due_then_disabled(*args: Any) -> Iterable[Schedule]:
        read = due(*args)
        disabling = threading.Thread(target=table.schedules.enable, args=("tick", False), kwargs=BY_ANN)
        disabling.start()
        disabling.join(30)
        return read

    monkeypatch.setattr(ScheduleStore, "due", due_then_disabled)
    assert table.look(MONDAY + HOUR) == 0
    assert table.starts() == []


def thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_a_host_runs_the_scheduler(runtime: Runtime) -> None:
    runtime.actors.register(Counter)
    runtime.actors.schedules.add("tick", Counter, Interval(1), state=Count(1), **BY_ANN)
    host = runtime.actors.host()
    host.start()
    try:
        wait_until(lambda: runtime.actors.schedules.show("tick").outcome is ScheduleOutcome.ENDED, timeout_s=30)
        assert {"schedules", "actor janitor"} <= thread_names()
    finally:
        host.stop()
    assert not {"schedules", "actor janitor"} & thread_names()
