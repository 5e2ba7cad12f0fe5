"""Duties in containers: kept running like all others, also when their engine goes away for a while."""

from __future__ import annotations

import os
import re
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.docker_engine.interface import CONTAINER_CONFIG, breach
from tests.support.docker_engine.server import TestEngine
from tests.support.launchers import IMAGE, PATHS, SLEEP
from tests.support.supervised import LONG_SILENT_S, ROOT, WAIT_S, WORKER, Keeping, keeping, sections

from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.supervision.duties.model import DeathKind, DutyState
from towpath.supervision.duties.plan import Installation, duties_wanted
from towpath.supervision.launchers.docker import DockerOptions, container_config
from towpath.supervision.launchers.launcher import LaunchSpec, ProcessLimits
from towpath.testing.clock import wait_until

CONTAINED: dict[str, Any] = {"launcher": "docker", "image": IMAGE, "environment": PATHS}


@pytest.fixture
def kept(make_runtime: Callable[..., Runtime], tmp_path: Path, docker_engine: TestEngine) -> Iterator[Keeping]:
    told = sections(tmp_path, silent_s=LONG_SILENT_S, docker_socket=str(docker_engine.path))
    with keeping(make_runtime(**told)) as made:
        yield made


def test_the_example_of_the_how_to_makes_a_container() -> None:
    page = (ROOT / "docs/how-to/supervise-docker.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    settings = Settings(**tomllib.loads(example))
    wanted = {each.name: each for each in duties_wanted(settings, Installation(ROOT))}
    spec = wanted["orders"].spec
    launch = LaunchSpec(
        "orders", 1, "abc", spec.command, spec.environment, limits=ProcessLimits(**spec.limits), image=spec.image
    )
    config = container_config(launch, DockerOptions(network=settings.supervision.docker_network))
    assert breach(CONTAINER_CONFIG, config) is None
    assert (config["Image"], config["Entrypoint"]) == ("shop:1", ["towpath", "run", "orders:flow"])
    assert "TOWPATH_DATABASE__URL=postgresql://towpath@db.internal/towpath" in config["Env"]
    assert (config["HostConfig"]["NetworkMode"], config["HostConfig"]["Memory"]) == ("host", 4096 << 20)


def test_a_container_that_dies_is_followed_by_another(kept: Keeping, docker_engine: TestEngine) -> None:
    kept.want("worker", WORKER, **CONTAINED)
    first = kept.wait_for("worker", DutyState.READY, 1)
    os.kill(docker_engine.containers_named("towpath-worker-")[0].pid, signal.SIGKILL)
    second = kept.wait_for("worker", DutyState.READY, 2)
    assert second.process_id not in (None, first.process_id)
    [death] = kept.deaths("worker")
    assert (death.how, death.exit_signal, death.process_id) == (DeathKind.SIGNAL, signal.SIGKILL, first.process_id)
    kept.runtime.duties.stop("worker", who="ann", why="enough")
    stopped = kept.wait_for("worker", DutyState.STOPPED)
    assert stopped.exit_code == 0
    assert kept.log("worker")[-1] == "ended in order"


def test_an_image_that_is_missing_is_told(kept: Keeping) -> None:
    kept.want_command("worker", ("true",), **{**CONTAINED, "image": "no/such:image"})
    failed = kept.wait_for("worker", DutyState.FAILED)
    assert "docker pull no/such:image" in failed.trouble


@pytest.mark.part("matrix")
def test_nobody_is_started_again_because_the_engine_is_away(kept: Keeping, docker_engine: TestEngine) -> None:
    """And the ends of subprocesses are heard meanwhile."""
    kept.want("contained", WORKER, **CONTAINED)
    kept.want("subprocess", WORKER)
    before = kept.wait_for("contained", DutyState.READY, 1)
    kept.wait_for("subprocess", DutyState.READY, 1)
    docker_engine.stop()
    kept.signal("subprocess", signal.SIGKILL)
    kept.wait_for("subprocess", DutyState.READY, 2)
    assert [death.how for death in kept.deaths("subprocess")] == [DeathKind.SIGNAL]
    docker_engine.start()
    after = kept.duty("contained")
    assert (after.state, after.launch, after.process_id) == (DutyState.READY, 1, before.process_id)


def test_what_has_to_be_started_while_the_engine_is_away_is_started_later(
    kept: Keeping, docker_engine: TestEngine
) -> None:
    docker_engine.stop()
    kept.want_command("worker", ("sh", "-c", SLEEP), reports=False, **CONTAINED)
    wait_until(lambda: "is it running?" in kept.duty("worker").trouble, WAIT_S)
    docker_engine.start()
    kept.wait_for("worker", DutyState.READY)
    assert len([each for each in docker_engine.containers_named("towpath-worker-") if each.is_running]) == 1
