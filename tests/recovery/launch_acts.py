"""What child processes of tests of launchers do: `python -m tests.recovery.launch_acts '{…}'`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from towpath.supervision.launchers.docker import DockerEngine, DockerLauncher, DockerOptions
from towpath.supervision.launchers.launcher import Launcher, LaunchSpec, LaunchState
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.testing.processes import leave_with_parent, order


def main() -> None:
    leave_with_parent()
    told = order()
    launcher = containers(told) if "engine" in told else SubprocessLauncher(Path(told["directory"]))
    if told["act"] == "storm":
        storm(launcher, [LaunchSpec(**spec) for spec in told["specs"]], told["acts"], random.Random(told["seed"]))
    else:
        {"start": start, "look": look, "kill": kill}[told["act"]](launcher, LaunchSpec(**told["spec"]))


def containers(told: dict[str, Any]) -> Launcher:
    return DockerLauncher(DockerEngine(Path(told["engine"])), DockerOptions(**told["options"]))


def start(launcher: Launcher, spec: LaunchSpec) -> None:
    launcher.start(spec)


def look(launcher: Launcher, spec: LaunchSpec) -> None:
    handle = launcher.find(spec.launch_id)
    assert handle is not None
    launcher.look(handle)


def kill(launcher: Launcher, spec: LaunchSpec) -> None:
    handle = launcher.find(spec.launch_id)
    assert handle is not None
    launcher.kill(handle)


def storm(launcher: Launcher, specs: list[LaunchSpec], acts: int, chance: random.Random) -> None:
    """Do anything with any of these launches, as others do. What is ended is started again, in vain."""
    for _ in range(acts):
        spec = chance.choice(specs)
        handle = launcher.find(spec.launch_id)
        if handle is None or chance.random() < 0.4:
            launcher.start(spec)
        elif chance.random() < 0.2:
            launcher.stop(handle, chance.choice([0.0, 0.1]))
        elif chance.random() < 0.2:
            launcher.kill(handle)
            assert launcher.look(handle).state is LaunchState.ENDED
        else:
            launcher.wait([handle], chance.choice([0.0, 0.05]))


if __name__ == "__main__":
    main()
