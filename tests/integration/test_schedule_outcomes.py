"""What comes of schedules on both databases: runs that last, fail or are refused, and what is not as it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tests.support.actors import Counter, Do, Doer, Gate, Nap, Sleeper
from tests.support.quiet import Quiet
from tests.support.tables import by_hand, events, rows
from tests.support.timetable import BY_ANN, HOUR, MONDAY, Timetable

from towpath.actors.instance import Phase
from towpath.actors.schedules.model import Daily, Interval, ScheduleOutcome
from towpath.testing.clock import wait_until


def test_it_still_runs_from_the_last_time(table: Timetable) -> None:
    """Then it is left out, which shows, and does not happen later."""
    gate = Gate()
    Doer.actions["wait"] = gate
    table.add(Interval(3600), actor=Doer, state=Do("wait"))
    assert table.look(MONDAY + HOUR) == 1
    wait_until(lambda: table.host.run_once() is not None and gate.begun.is_set(), timeout_s=30)
    first = table.schedules.show("tick")
    assert first.outcome is ScheduleOutcome.RUNNING
    for hour in (2, 3, 4):
        table.look(MONDAY + hour * HOUR)
    found = table.schedules.show("tick")
    assert (found.last_run, found.last_at, found.skipped) == (first.last_run, first.last_at, 3)
    assert "doer:main" in (found.skip_reason or "")
    assert len(events(table.database, "schedule_skipped")) == 1
    gate.go_on.set()
    table.settle()
    assert table.look(MONDAY + 4 * HOUR) == 0
    assert [each.state for each in table.starts("doer")] == ["OK"]
    assert table.schedules.show("tick").outcome is ScheduleOutcome.ENDED
    assert table.look(MONDAY + 5 * HOUR) == 1


def test_a_start_that_nobody_has_taken_yet(table: Timetable) -> None:
    table.add(Interval(3600))
    table.look(MONDAY + HOUR)
    assert table.schedules.show("tick").outcome is ScheduleOutcome.SENT
    table.look(MONDAY + 2 * HOUR)
    assert len(table.starts()) == 1
    assert table.schedules.show("tick").skip_reason


def test_a_start_that_the_intake_refuses(table: Timetable) -> None:
    """Somebody started the instance between the scheduler's look and the intake's."""
    table.actors.start(Sleeper, Nap(3 * 86_400))
    table.add(Interval(3600), actor=Sleeper, state=Nap(1))
    table.look(MONDAY + HOUR)
    wait_until(
        lambda: table.host.run_once() is not None and table.schedules.show("tick").outcome is not ScheduleOutcome.SENT,
        timeout_s=30,
    )
    found = table.schedules.show("tick")
    assert found.outcome is ScheduleOutcome.REFUSED
    assert "runs already" in (found.reason or "")


def test_a_run_that_failed(table: Timetable) -> None:
    table.add(Interval(3600), actor=Doer, state=Do("what nobody knows"))
    table.look(MONDAY + HOUR)
    table.settle()
    wait_until(lambda: table.actors.instance("doer").phase is Phase.FAILED)
    found = table.schedules.show("tick")
    assert (found.outcome, found.reason) == (ScheduleOutcome.FAILED, "Do: KeyError: 'what nobody knows'")


def test_a_run_that_was_long_ago(table: Timetable) -> None:
    table.add(Interval(3600))
    table.look(MONDAY + HOUR)
    table.settle()
    by_hand(table.database, "delete from message where inbox = 'actor:counter:main'")
    assert table.schedules.show("tick").outcome is ScheduleOutcome.FORGOTTEN


def test_two_schedules_of_one_instance_at_once(table: Timetable) -> None:
    table.add(Interval(3600), name="a")
    table.add(Interval(3600), name="b")
    assert table.look(MONDAY + HOUR) == 2
    table.settle()
    outcomes = [each.outcome for each in table.schedules.list()]
    assert sorted(outcomes) in (
        [ScheduleOutcome.ENDED, ScheduleOutcome.REFUSED],
        [ScheduleOutcome.ENDED, ScheduleOutcome.ENDED],
    )


def test_an_actor_that_nobody_knows_yet(table: Timetable, make_quiet: Callable[..., Quiet]) -> None:
    """Its schedule is kept, and what was missed is run once by the first process that knows it."""
    other = make_quiet()
    schedules = other.runtime.actors.schedules
    found = schedules.add("later", "some-day", Interval(3600), **BY_ANN)
    assert "'some-day'" in (found.warning or "")
    by_hand(other.database, "update actor_schedule set actor = 'late' where name = 'later'")
    assert table.look(MONDAY + 9 * HOUR) == 0

    class Late(Counter):
        """Comes later."""

    other.runtime.actors.register(Late)
    host = other.runtime.actors.host()
    wait_until(lambda: host.scheduler.run_once().done == 1)  # it reads the shift of the clock now and then
    assert host.scheduler.run_once().done == 0
    assert schedules.show("later").warning is None
    assert [each.function for each in table.starts("late")] == ["Count"]


def test_a_time_zone_that_this_machine_does_not_know(table: Timetable) -> None:
    """It harms no other schedule, shows, and is looked at again later."""
    table.add(Daily(3), name="mars")
    table.add(Daily(3), name="earth", instance="earth")
    by_hand(table.database, "update actor_schedule set zone = 'Mars/Olympus' where name = 'mars'")
    assert table.look(MONDAY + 4 * HOUR) == 2
    found = table.schedules.show("mars")
    assert "'Mars/Olympus'" in (found.skip_reason or "")
    assert found.next_at is not None
    assert abs(found.next_at - (MONDAY + 5 * HOUR)) < timedelta(minutes=1)
    assert table.schedules.show("earth").last_run is not None


def test_what_cannot_be_sent_is_not_started(table: Timetable) -> None:
    table.add(Interval(3600))
    by_hand(table.database, "update actor_schedule set instance = 'a//b' where name = 'tick'")
    table.look(MONDAY + HOUR)
    found = table.schedules.show("tick")
    assert found.last_run is None
    assert "name" in (found.skip_reason or "")
    assert rows(table.database, "message") == []
