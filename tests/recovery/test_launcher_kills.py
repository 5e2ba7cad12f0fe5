"""A starter dies by SIGKILL between any two of its acts, or a keeper does; another goes on, nothing runs twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.stage import ROOT
from tests.support.docker_engine.server import TestEngine
from tests.support.launchers import IMAGE, LONG_S, Rig

from towpath.core.crash import CrashPoint as P
from towpath.supervision.launchers.docker import DockerEngine, DockerLauncher, DockerOptions
from towpath.supervision.launchers.launcher import LaunchSpec, LaunchState
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess

STARTER_POINTS = (P.LAUNCHER_DIRECTORY_MADE, P.LAUNCHER_HOME_MADE, P.LAUNCHER_KEEPER_SPAWNED, P.LAUNCHER_STARTED)
KEEPER_POINTS = (P.KEEPER_BEFORE_BEGUN, P.KEEPER_BEGUN, P.KEEPER_STARTED, P.KEEPER_NOTED)
END_POINTS = (P.KEEPER_BEFORE_END, P.KEEPER_AFTER_END)
CONTAINER_POINTS = (P.CONTAINER_CREATED, P.CONTAINER_BEGUN, P.CONTAINER_STARTED)
LAUNCHER_POINTS = frozenset((*STARTER_POINTS, *KEEPER_POINTS, *END_POINTS, P.SETTLE_BEGUN, *CONTAINER_POINTS))
# From here on the launch counts as begun: it is never begun again.
BEGUN = {P.KEEPER_BEGUN, P.KEEPER_STARTED, P.KEEPER_NOTED}

Run = Callable[..., ChildProcess]


@pytest.fixture
def child(tmp_path: Path) -> Run:
    def make(act: str, spec: LaunchSpec, crash_at: P | None = None, **where: Any) -> ChildProcess:
        told: dict[str, Any] = {
            "act": act,
            "directory": str(tmp_path / "processes"),
            **where,
            "spec": {name: getattr(spec, name) for name in ("duty", "launch", "launch_id", "command", "environment")},
        }
        log = tmp_path / "children.log"
        return ChildProcess("tests.recovery.launch_acts", told, log=log, crash_at=crash_at, cwd=ROOT)

    return make


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def worker(rig: Rig, journal: Path) -> LaunchSpec:
    """Notes that it has begun, and runs until it is ended."""
    return rig.spec(f"echo $$ >> {journal}; while :; do sleep 0.05; done")


def begun(journal: Path) -> list[int]:
    return [int(line) for line in journal.read_text().split()] if journal.exists() else []


@pytest.mark.parametrize("point", STARTER_POINTS)
def test_a_starter_is_killed_and_another_starts_it_again(
    point: P, subprocess_rig: Rig, child: Run, journal: Path
) -> None:
    """Without the home it would run twice, or be lost for ever."""
    rig, spec = subprocess_rig, worker(subprocess_rig, journal)
    with child("start", spec, point) as starter:
        starter.wait_killed()
    handle = rig.launcher.start(spec)
    wait_until(lambda: begun(journal), LONG_S)
    wait_until(lambda: rig.other.look(handle).pid, LONG_S)
    assert rig.other.find(spec.launch_id) == handle
    assert [rig.other.look(handle).pid] == begun(journal)
    assert begun(journal)[0] in rig.kin(spec)
    rig.launcher.kill(handle)
    assert rig.kin(spec) == []
    assert len(begun(journal)) == 1


@pytest.mark.parametrize("point", STARTER_POINTS)
def test_a_starter_is_killed_and_another_ends_what_it_started(
    point: P, subprocess_rig: Rig, child: Run, journal: Path
) -> None:
    """Also a keeper that comes too late finds that it may not begin."""
    rig, spec = subprocess_rig, worker(subprocess_rig, journal)
    with child("start", spec, point) as starter:
        starter.wait_killed()
    handle = rig.launcher.find(spec.launch_id)
    assert handle is not None
    rig.launcher.kill(handle)
    assert rig.other.look(handle).state is LaunchState.ENDED
    before = begun(journal)
    rig.other.start(spec)
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert rig.kin(spec) == []
    assert begun(journal) == before


@pytest.mark.parametrize("point", KEEPER_POINTS)
def test_a_keeper_is_killed_and_nothing_of_it_is_left(point: P, subprocess_rig: Rig, child: Run, journal: Path) -> None:
    """Without the kernel's help a process would run on that nobody could end or tell the end of."""
    rig, spec = subprocess_rig, worker(subprocess_rig, journal)
    with child("start", spec, point) as starter:
        code = starter.wait()
    handle = rig.launcher.find(spec.launch_id)
    assert handle is not None
    # Who started it hears of its end before the kernel has taken everything from it: the answer is closed first.
    wait_until(lambda: not rig.launcher.look(handle).is_running, LONG_S, "the end of the keeper")
    looked = rig.launcher.look(handle)
    if point in BEGUN:
        assert code == 0
        assert (looked.state, looked.reason) == (LaunchState.ENDED, "its keeper was killed, and it died with it")
        assert rig.kin(spec) == []
        rig.launcher.start(spec)
        assert rig.launcher.look(handle) == looked
    else:
        assert code == 1
        assert "LauncherAway" in starter.log_tail()
        assert looked.state is LaunchState.UNKNOWN
        rig.launcher.start(spec)
        wait_until(lambda: begun(journal), LONG_S)
        assert rig.other.look(handle).is_running


@pytest.mark.parametrize("point", END_POINTS)
def test_a_keeper_is_killed_at_the_end(point: P, subprocess_rig: Rig, child: Run) -> None:
    rig, spec = subprocess_rig, subprocess_rig.spec("exit 7")
    with child("start", spec, point) as starter:
        starter.wait_done()
    handle = rig.launcher.find(spec.launch_id)
    assert handle is not None
    looked = rig.ended(handle)
    if point is P.KEEPER_AFTER_END:
        assert (looked.exit_code, looked.reason) == (7, None)
    else:
        assert (looked.exit_code, looked.reason) == (None, "its keeper was killed, and it died with it")


def test_who_settles_is_killed_and_another_settles(subprocess_rig: Rig, child: Run, tmp_path: Path) -> None:
    rig, spec = subprocess_rig, subprocess_rig.spec("setsid sleep 600 & echo ready; wait")
    handle = rig.launcher.start(spec)
    rig.says(handle, "ready")
    keeper = rig.keeper(handle)
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: len(rig.kin(spec)) == 1, LONG_S, "the process to die with its keeper")
    with child("look", spec, P.SETTLE_BEGUN) as looker:
        looker.wait_killed()
    assert len(rig.kin(spec)) == 1
    assert rig.ended(handle).reason == "its keeper was killed, and it died with it"
    assert rig.kin(spec) == []


# Containers


@pytest.fixture
def engine(docker_engine: TestEngine) -> dict[str, Any]:
    return {"engine": str(docker_engine.path), "options": {"cluster": "test", "image": IMAGE}}


@pytest.fixture
def containers(docker_engine: TestEngine) -> Iterator[Rig]:
    options = DockerOptions(cluster="test", image=IMAGE)
    rig = Rig(lambda: DockerLauncher(DockerEngine(docker_engine.path), options))
    yield rig
    rig.end()


@pytest.mark.parametrize("point", CONTAINER_POINTS)
def test_a_starter_of_a_container_is_killed_and_another_starts_it_again(
    point: P, containers: Rig, child: Run, journal: Path, engine: dict[str, Any]
) -> None:
    """One that may have been started is not started again: nobody could tell it from one that has ended."""
    rig, spec = containers, worker(containers, journal)
    with child("start", spec, point, **engine) as starter:
        starter.wait_killed()
    handle = rig.launcher.start(spec)
    assert rig.other.find(spec.launch_id) == handle
    assert rig.other.handles() == [handle]
    if point is P.CONTAINER_BEGUN:
        assert rig.other.look(handle).state is LaunchState.UNKNOWN
        assert begun(journal) == []
    else:
        wait_until(lambda: begun(journal), LONG_S)
        assert [rig.other.look(handle).pid] == begun(journal)


@pytest.mark.parametrize("point", CONTAINER_POINTS)
def test_a_starter_of_a_container_is_killed_and_another_ends_it(
    point: P, containers: Rig, child: Run, journal: Path, engine: dict[str, Any]
) -> None:
    rig, spec = containers, worker(containers, journal)
    with child("start", spec, point, **engine) as starter:
        starter.wait_killed()
    handle = rig.launcher.find(spec.launch_id)
    assert handle is not None
    rig.launcher.kill(handle)
    assert rig.other.look(handle).state is LaunchState.ENDED
    before = begun(journal)
    rig.other.start(spec)
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert begun(journal) == before


def test_who_ends_a_container_that_was_not_begun_is_killed_and_another_ends_it(
    containers: Rig, child: Run, journal: Path, engine: dict[str, Any]
) -> None:
    rig, spec = containers, worker(containers, journal)
    with child("start", spec, P.CONTAINER_CREATED, **engine) as starter:
        starter.wait_killed()
    with child("kill", spec, P.CONTAINER_BEGUN, **engine) as killer:
        killer.wait_killed()
    handle = rig.launcher.find(spec.launch_id)
    assert handle is not None
    rig.launcher.kill(handle)
    assert rig.other.look(handle).state is LaunchState.ENDED
    rig.other.start(spec)
    assert begun(journal) == []
