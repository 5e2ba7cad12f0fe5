"""`towpath desk run`: everything that the desk does by itself, in one process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import TOWPATH, sigint
from tests.support.sent import Sent

from towpath.flow.stage.store import StageStore
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

LONG_S = 60


@pytest.fixture
def sent(make_runtime: Callable[..., Runtime], tmp_path: Path, variables: dict[str, str]) -> Sent:
    made = Sent.on(make_runtime(log={"url": f"sqlite:///{tmp_path}/log.db"}), "shop")
    made.make_topics()
    with made.runtime.database.transaction() as tx:
        StageStore(made.runtime.database).ensure(tx, "shop", "main", {})
    return made


def run(home: Path, *words: str, inherited: Any = signal.default_int_handler) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TOWPATH_LOG__URL": f"sqlite:///{home}/log.db"}
    with sigint(inherited):
        return subprocess.Popen(
            [*TOWPATH, "desk", "run", *words],
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def end(child: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = child.communicate(timeout=LONG_S)
    return child.returncode, out.decode(), err.decode()


def test_until_idle_sends_and_releases_and_ends(sent: Sent, tmp_path: Path) -> None:
    direct, due, later = sent.make(2), sent.make(2), sent.make(1)
    sent.replay(direct)
    sent.replay(due, 0)
    sent.replay(later, 3600)
    code, _, err = end(run(tmp_path, "--until-idle"))
    assert code == 0, err
    assert sent.came_back() == sorted((case, 2) for case in [*direct, *due])
    assert sent.states() == {"replaying": 4, "waiting": 1}
    assert "4 replaying, 1 waiting" in err
    with sent.runtime.database.glance() as tx:
        assert {lane.owner for lane in sent.parts.lanes.of_flow(tx)} == {None}


def test_json_lines(sent: Sent, tmp_path: Path) -> None:
    sent.replay(sent.make(1))
    code, out, err = end(run(tmp_path, "--until-idle", "--json"))
    assert code == 0, err
    assert out.splitlines()[-1] == '{"cases": {"replaying": 1}, "to_send": 0, "jobs": 0}'


@pytest.mark.parametrize(
    ("which", "inherited"),
    [
        (signal.SIGTERM, signal.default_int_handler),
        (signal.SIGINT, signal.default_int_handler),
        pytest.param(signal.SIGTERM, signal.SIG_IGN, id="SIGTERM in the background of a shell"),
    ],
)
def test_it_works_until_it_is_told_to_stop(sent: Sent, tmp_path: Path, which: signal.Signals, inherited: Any) -> None:
    child = run(tmp_path, inherited=inherited)
    try:
        cases = sent.make(2)
        sent.replay(cases[:1])
        sent.replay(cases[1:], 0.2)
        wait_until(lambda: len(sent.came_back()) == 2, LONG_S, "both records in the re-entry topic")
        child.send_signal(which)
        code, _, err = end(child)
    finally:
        child.kill()
    assert code == 0, err
    stopped: Any = sent.runtime.database
    with stopped.beats.glance() as tx:
        states = {row.state for row in sent.parts.processes.all(tx) if row.id != sent.runtime.process().id}
    assert states == {"stopped"}
