"""Many start, stop, kill, look at and forget the same launches at once, and keepers die: none is ever begun twice."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.recovery.stage import ROOT
from tests.support.docker_engine.server import TestEngine
from tests.support.launchers import IMAGE, LONG_S, PATHS, Rig

from towpath.supervision.launchers.docker import DockerEngine, DockerLauncher, DockerOptions
from towpath.supervision.launchers.keeper_home import LaunchHome
from towpath.supervision.launchers.launcher import LaunchSpec, LaunchState
from towpath.supervision.launchers.process_tree import born
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.testing.processes import ChildProcess

LAUNCHES = 12
HANDS = 3
ACTS = 120


@pytest.fixture(params=["subprocess", "docker"])
def storm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Rig, dict[str, Any]]]:
    """A rig, and how child processes find the same launcher."""
    if request.param == "subprocess":
        directory = tmp_path / "processes"
        rig = Rig(lambda: SubprocessLauncher(directory))
        yield rig, {"directory": str(directory)}
    else:
        engine: TestEngine = request.getfixturevalue("docker_engine")
        options = DockerOptions("test", IMAGE)
        rig = Rig(lambda: DockerLauncher(DockerEngine(engine.path), options))
        yield rig, {"engine": str(engine.path), "options": {"cluster": "test", "image": IMAGE}}
    rig.end()


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.parametrize("seed", [1, 2])
def test_no_launch_is_begun_twice(storm: tuple[Rig, dict[str, Any]], tmp_path: Path, seed: int) -> None:
    rig, where = storm
    journal = tmp_path / "journal"
    specs = [
        rig.spec(f"echo {number} >> {journal}; while :; do sleep 0.05; done", launch_id=f"launch-{seed}-{number}")
        for number in range(LAUNCHES)
    ]
    told = {**where, "act": "storm", "specs": [shown(spec) for spec in specs], "acts": ACTS}
    with ExitStack() as stack:
        hands = [
            stack.enter_context(
                ChildProcess(
                    "tests.recovery.launch_acts", {**told, "seed": seed * 100 + number}, log=tmp_path / "log", cwd=ROOT
                )
            )
            for number in range(HANDS)
        ]
        if isinstance(rig.other, SubprocessLauncher):
            kill_keepers(rig, hands, random.Random(seed))
        for hand in hands:
            hand.wait_done(4 * LONG_S)
    for handle in rig.other.handles():
        rig.other.kill(handle)
        assert rig.other.look(handle).state is LaunchState.ENDED
    begun = Counter(journal.read_text().split())
    assert begun
    assert set(begun.values()) == {1}
    assert [spec.sign for spec in specs if rig.kin(spec)] == []


def kill_keepers(rig: Rig, hands: list[ChildProcess], chance: random.Random) -> None:
    """Now and then, as long as somebody works."""
    while any(hand.is_running for hand in hands):
        for handle in rig.other.handles():
            rig.other.wait([handle], 0.02)
            if chance.random() < 0.1:
                home = LaunchHome(Path(handle))
                told = home.keeper or {}
                # Who starts one that dies before it has begun is told so; and a number may be another's by now.
                if home.has_begun and told and born(told["keeper"]) == told["keeper_born"]:
                    with suppress(ProcessLookupError):
                        os.kill(told["keeper"], signal.SIGKILL)


def shown(spec: LaunchSpec) -> dict[str, Any]:
    told = {name: getattr(spec, name) for name in ("duty", "launch", "launch_id", "command")}
    return {**told, "environment": PATHS}
