"""Launchers for tests: what they start says what it does, and nothing of it is left behind."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from tests.support.docker_engine.server import TestEngine

from towpath.supervision.launchers.docker import DockerEngine, DockerLauncher, DockerOptions
from towpath.supervision.launchers.launcher import LAUNCH_VARIABLE, Launcher, LaunchSpec, LaunchStatus
from towpath.supervision.launchers.process_tree import process_tree
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.testing.clock import wait_until

LONG_S = 60.0
REAL_ENGINE, REAL_IMAGE = "DOCKER_ENGINE_SOCKET", "DOCKER_ENGINE_IMAGE"  # an image with a shell and Python
IMAGE = "towpath-test"
SLEEP = "while :; do sleep 0.05; done"
PATHS = {"PATH": os.environ["PATH"]}


class Rig:
    """A launcher, and another one of the same kind that has not started anything."""

    def __init__(self, make: Callable[[], Launcher]) -> None:
        self.make = make
        self.launcher = make()
        self.other = make()
        self._numbers = itertools.count(1)
        self._specs: list[LaunchSpec] = []

    def spec(self, script: str = SLEEP, /, **given: Any) -> LaunchSpec:
        """A launch of a shell script; with what else is given."""
        told: dict[str, Any] = {
            "duty": "orders",
            "launch": next(self._numbers),
            "launch_id": uuid4().hex,
            "command": ("sh", "-c", script),
            "environment": PATHS,
            "directory": Path("/"),
        }
        spec = LaunchSpec(**{**told, **given})
        self._specs.append(spec)
        return spec

    def start(self, script: str = SLEEP, /, **given: Any) -> str:
        return self.launcher.start(self.spec(script, **given))

    def ended(self, handle: str) -> LaunchStatus:
        """How it ended, as soon as it has; told by one who has not started it."""
        assert self.other.wait([handle], LONG_S) == [handle]
        return self.other.look(handle)

    def lines(self, handle: str) -> list[str]:
        return list(self.other.logs(handle))

    def says(self, handle: str, line: str) -> None:
        """Wait until it has written this line."""
        wait_until(lambda: line in self.lines(handle), LONG_S, f"{line!r} in the log")

    def kin(self, spec: LaunchSpec) -> list[int]:
        """The processes of this machine that belong to a launch."""
        return list(process_tree(f"{LAUNCH_VARIABLE}={spec.sign}"))

    def keeper(self, handle: str) -> int:
        """The number of the keeper of a subprocess."""
        assert isinstance(self.other, SubprocessLauncher)
        told = self.other._home(handle).keeper
        assert told is not None
        return int(told["keeper"])

    def end(self) -> None:
        for handle in self.other.handles():
            self.other.kill(handle)
            self.other.forget(handle)
        assert [spec.sign for spec in self._specs if self.kin(spec)] == []


@pytest.fixture
def subprocess_rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(lambda: SubprocessLauncher(tmp_path / "processes"))
    yield rig
    rig.end()


@pytest.fixture
def docker_engine() -> Iterator[TestEngine]:
    """A test engine, which has been asked only for what the Engine's interface has, and has answered so."""
    # Not the test's own directory: the name of a socket must be short.
    with TemporaryDirectory(prefix="engine-") as directory:
        engine = TestEngine(Path(directory, "docker.sock"), images=(IMAGE,))
        engine.start()
        yield engine
        engine.close()
    assert engine.breaches == []


@pytest.fixture
def docker_rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A real engine where one is named, and the test engine otherwise."""
    path = os.environ.get(REAL_ENGINE) or request.getfixturevalue("docker_engine").path
    options = DockerOptions(cluster=f"test-{uuid4().hex[:8]}", image=os.environ.get(REAL_IMAGE, IMAGE))
    rig = Rig(lambda: DockerLauncher(DockerEngine(Path(path)), options))
    yield rig
    rig.end()


@pytest.fixture(params=["subprocess", "docker"])
def launching(request: pytest.FixtureRequest) -> Rig:
    """Each launcher in turn."""
    made: Rig = request.getfixturevalue(f"{request.param}_rig")
    return made
