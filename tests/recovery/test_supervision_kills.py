"""A coordinator dies by SIGKILL between any two of its acts; the next one goes on, and nothing is done twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.stage import ROOT
from tests.support.leases import LONG_LEASE_S
from tests.support.pausing import pause_without_a_lock
from tests.support.supervised import LONG_SILENT_S, WAIT_S, WORKER, Keeping, end_all, end_term, keeping, sections
from tests.support.tables import events, rows, states

import towpath
from towpath.core.crash import CrashPoint as P
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DeathKind, DutyState
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess

STARTING = (
    P.TERM_BEFORE_COMMIT,
    P.TERM_AFTER_COMMIT,
    P.LAUNCH_BEFORE_COMMIT,
    P.LAUNCH_AFTER_COMMIT,
    P.LAUNCH_STARTED,
    P.LAUNCH_NOTED,
)
DYING = (P.DEATH_BEFORE_COMMIT, P.DEATH_AFTER_COMMIT, P.DEATH_FREED)
STOPPING = (
    P.DUTY_STOP_BEFORE_COMMIT,
    P.DUTY_STOP_AFTER_COMMIT,
    P.DUTY_END_BEFORE_COMMIT,
    P.DUTY_END_AFTER_COMMIT,
)
SUPERVISION_POINTS = frozenset((*STARTING, *DYING, *STOPPING, P.DUTY_KILLED, P.LAUNCH_ADOPTED))

SLEEPER = "import time; time.sleep(600)"
# Dies where it is told to at its first start, and works from then on.
DIES_FIRST = """
import os, pathlib
mark = pathlib.Path(os.environ["MARK"])
if not mark.exists():
    mark.touch()
    os.environ["TOWPATH_CRASH"] = os.environ["POINT"]
"""

Coordinate = Callable[[P], None]


@pytest.fixture
def silent_s() -> float:
    """On busy cores nobody may be ended by force who only waits for one."""
    return LONG_SILENT_S


@pytest.fixture
def told(database_settings: dict[str, Any], tmp_path: Path, silent_s: float) -> dict[str, Any]:
    return {**sections(tmp_path, lease_s=LONG_LEASE_S, silent_s=silent_s), "database": database_settings}


@pytest.fixture
def runtime(told: dict[str, Any]) -> Iterator[Runtime]:
    with towpath.connect(**told) as made:
        yield made
        end_all(made)


@pytest.fixture
def coordinate_until(runtime: Runtime, told: dict[str, Any], tmp_path: Path) -> Coordinate:
    """Another process coordinates until it dies there; then the lease of its term runs out."""

    def until(point: P) -> None:
        log = tmp_path / "children.log"
        act = "tests.recovery.supervision_acts"
        with ChildProcess(act, {"sections": told}, log=log, crash_at=point, cwd=ROOT) as child:
            child.wait_killed(WAIT_S)
        end_term(runtime)

    return until


def working(runtime: Runtime) -> Keeping:
    """A worker that has claimed three messages; nobody coordinates any more."""
    runtime.queue.inbox("work", max_attempts=100)
    runtime.queue.outbox("me").notice_many("work", "DO", range(3))
    with keeping(runtime, ends=False) as kept:
        kept.want("worker", WORKER)
        kept.wait_for("worker", DutyState.READY)
    assert states(runtime.database) == ["ACK"] * 3
    return kept


def processes(runtime: Runtime) -> list[str]:
    """The states of all that ever worked for the duty."""
    return sorted(row["state"] for row in rows(runtime.database, "process") if row["duty"] == "worker")


@pytest.mark.parametrize("point", STARTING)
def test_one_process_is_started_in_spite_of_a_kill_at(point: P, runtime: Runtime, coordinate_until: Coordinate) -> None:
    """If a launch were begun anew, or taken after its process, there would be two, or one that nobody knows."""
    Keeping(runtime).want("worker", WORKER)
    coordinate_until(point)
    with keeping(runtime) as kept:
        kept.wait_for("worker", DutyState.READY)
        assert kept.duty("worker").launch == 1
        assert kept.deaths("worker") == []
        assert processes(runtime) == ["alive"]


def test_a_process_that_dies_as_soon_as_it_has_shown_itself_is_started_again(runtime: Runtime, tmp_path: Path) -> None:
    with keeping(runtime) as kept:
        variables = {"MARK": str(tmp_path / "mark"), "POINT": P.LAUNCH_ADOPTED.value}
        kept.want("worker", DIES_FIRST + WORKER, environment=variables)
        kept.wait_for("worker", DutyState.READY, 2)
        [death] = kept.deaths("worker")
        assert (death.how, death.exit_signal) == (DeathKind.SIGNAL, signal.SIGKILL)
        assert death.process_id is not None
        assert processes(runtime) == ["alive"], "it had not registered"


@pytest.mark.parametrize("point", DYING)
def test_a_death_is_recorded_once_and_all_is_freed_in_spite_of_a_kill_at(
    point: P, runtime: Runtime, coordinate_until: Coordinate
) -> None:
    kept = working(runtime)
    kept.signal("worker", signal.SIGKILL)
    coordinate_until(point)
    with keeping(runtime) as kept:
        second = kept.wait_for("worker", DutyState.READY, 2)
        wait_until(lambda: kept.deaths("worker")[0].freed is not None, WAIT_S, "the record of what was freed")
        [death] = kept.deaths("worker")
        assert (death.how, death.exit_signal, death.launch) == (DeathKind.SIGNAL, signal.SIGKILL, 1)
        assert death.freed is not None
        assert death.freed["messages"] == 3
        wait_until(lambda: {row["owner"] for row in rows(runtime.database, "message")} == {second.process_id}, WAIT_S)
        assert processes(runtime) == ["alive", "dead"]


@pytest.mark.realtime
@pytest.mark.parametrize("silent_s", [10.0])
def test_a_silent_process_is_replaced_in_spite_of_a_kill_after_its_end(
    runtime: Runtime, coordinate_until: Coordinate, silent_s: float
) -> None:
    """It is ended by force, and nobody could write down why."""
    kept = working(runtime)
    kept.pause("worker")
    coordinate_until(P.DUTY_KILLED)
    with keeping(runtime) as kept:
        kept.wait_for("worker", DutyState.READY, 2)
        [death] = kept.deaths("worker")
        assert (death.launch, death.exit_signal) == (1, signal.SIGKILL)
        assert processes(runtime) == ["alive", "dead"]


@pytest.mark.parametrize("point", STOPPING)
def test_a_process_is_stopped_in_order_in_spite_of_a_kill_at(
    point: P, runtime: Runtime, coordinate_until: Coordinate
) -> None:
    working(runtime)
    runtime.duties.stop("worker", who="ann", why="enough")
    coordinate_until(point)
    with keeping(runtime) as kept:
        stopped = kept.wait_for("worker", DutyState.STOPPED)
        assert (stopped.launch, stopped.exit_code) == (1, 0)
        assert kept.deaths("worker") == []
        assert processes(runtime) == ["stopped"]


@pytest.mark.realtime
def test_a_paused_coordinator_does_nothing_when_it_wakes(
    runtime: Runtime, told: dict[str, Any], tmp_path: Path
) -> None:
    """Its term is over, by its own clock too early to tell; another has taken the next one and acts."""
    act, log = "tests.recovery.supervision_acts", tmp_path / "children.log"
    kept = Keeping(runtime)
    with ChildProcess(act, {"sections": told}, log=log, cwd=ROOT) as paused:
        kept.want("before", SLEEPER, reports=False)
        kept.wait_for("before", DutyState.READY)
        pause_without_a_lock(paused.pid, runtime.database)
        end_term(runtime)
        with keeping(runtime):
            wait_until(lambda: runtime.duties.overview().term.number == 2, WAIT_S, "the next term")
            paused.signal(signal.SIGCONT)
            kept.want("after", SLEEPER, reports=False)
            kept.wait_for("after", DutyState.READY)
            runtime.duties.restart("before", who="ann", why="try")
            kept.wait_for("before", DutyState.READY, 2)
            assert paused.is_running
            assert runtime.duties.overview().term.number == 2
            # Not later: whoever has the term next may take what ends with this one for dead.
            rows = events(runtime.database, "duty_launched")
        launched = [(row["subject"], json.loads(row["data"])["term"]) for row in rows]
        assert launched == [("before", 1), ("after", 2), ("before", 2)]


def test_every_point_of_supervision_is_here() -> None:
    named = ("term_", "launch_", "duty_", "death_before", "death_after", "death_freed")
    assert {point for point in P if point.startswith(named)} == SUPERVISION_POINTS
