"""A host dies by SIGKILL while a schedule starts something, or while old instances are deleted; another goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.stage import ROOT
from tests.support.actors import Count, Counter, Gather, Parent
from tests.support.tables import events, rows

import towpath
from towpath.actors.schedules.model import Interval, ScheduleOutcome
from towpath.core.crash import CrashPoint as P
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess

STARTING = (P.SCHEDULE_BEFORE_COMMIT, P.SCHEDULE_AFTER_COMMIT)
FORGETTING = (P.FORGET_BEFORE_COMMIT, P.FORGET_AFTER_COMMIT)
SCHEDULE_POINTS = frozenset((*STARTING, *FORGETTING))

SECTIONS: dict[str, Any] = {
    "queue": {"poll_s": 0.2, "caretaker_s": 0.05},
    "process": {"lease_s": 600, "heartbeat_s": 1},
}
DAY_S = 86_400.0

Run = Callable[..., ChildProcess]


@pytest.fixture
def runtime(database_settings: dict[str, Any]) -> Iterator[Runtime]:
    with towpath.connect(**SECTIONS, database=database_settings) as made:
        made.actors.register(Counter, Parent)
        yield made


@pytest.fixture
def child(database_settings: dict[str, Any], tmp_path: Path) -> Run:
    def make(until: str, crash_at: P | None = None) -> ChildProcess:
        told = {"until": until, "sections": {**SECTIONS, "database": database_settings}}
        log = tmp_path / "children.log"
        return ChildProcess("tests.recovery.scheduling", told, log=log, crash_at=crash_at, cwd=ROOT)

    return make


@pytest.mark.parametrize("point", STARTING)
def test_a_due_schedule_starts_once_in_spite_of_a_kill_at(point: P, runtime: Runtime, child: Run) -> None:
    """If the start and the next time did not commit together, it would be started twice, or not at all."""
    schedules = runtime.actors.schedules
    schedules.add("tick", Counter, Interval(3600), state=Count(1), who="ann", why="a test")
    due = schedules.show("tick").next_us
    runtime.database.shift_clock(2.5 * 3600)
    with child("run", point) as killed:
        killed.wait_killed()
    found = schedules.show("tick")
    if point is P.SCHEDULE_BEFORE_COMMIT:
        assert (found.next_us, found.outcome) == (due, ScheduleOutcome.NONE)
        assert rows(runtime.database, "message") == []
    else:
        assert (
            found.outcome is not ScheduleOutcome.NONE
        )  # sent, or taken already by another thread of the one that dies
    with child("run") as successor:
        successor.wait_done(90)
    history = runtime.actors.history("counter")[::-1]
    assert [(each.function, each.state) for each in history] == [("Count", "OK")] * 3 + [("End", "OK")]
    last = schedules.show("tick")
    assert (last.last_run, last.outcome, last.skipped) == (history[0].id, ScheduleOutcome.ENDED, 0)
    assert last.next_us is not None
    assert due is not None
    assert last.next_us == due + 2 * 3600 * 1_000_000


@pytest.mark.parametrize("point", FORGETTING)
def test_old_instances_are_deleted_whole_in_spite_of_a_kill_at(point: P, runtime: Runtime, child: Run) -> None:
    host = runtime.actors.host()
    host.start()
    run = runtime.actors.start(Parent, Gather([1, 2]), wants_answer=True)
    assert runtime.actors.outbox().wait(run, timeout_s=60).payload == 3
    host.stop()
    children = [each.inbox for each in runtime.actors.instances() if each.parent is not None]
    assert len(children) == 2
    runtime.database.shift_clock(15 * DAY_S)
    with child("cleaned", point) as killed:
        killed.wait_killed()
    is_done = point is P.FORGET_AFTER_COMMIT
    left = [each.inbox for each in runtime.actors.instances() if each.parent is not None]
    assert left == ([] if is_done else children)
    assert len(inboxes_of(runtime, children)) == (0 if is_done else 2)
    with child("cleaned") as successor:
        successor.wait_done(90)
    assert [each.name for each in runtime.actors.instances()] == ["parent:main"]
    assert inboxes_of(runtime, children) == []
    assert len(events(runtime.database, "instances_cleaned")) == 1


def inboxes_of(runtime: Runtime, children: list[str]) -> list[str]:
    names = [row["name"] for row in rows(runtime.database, "inbox")]
    return [name for name in names if name.removesuffix("//reply") in children]
