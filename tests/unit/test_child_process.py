"""Children by themselves and children of a nursery: they start and end the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from towpath.core.crash import CrashPoint
from towpath.testing import processes
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildFailed, ChildProcess

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]

Start = Callable[..., ChildProcess]


@pytest.fixture(params=["alone", "nursery"])
def start(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(processes, "_are_quick", request.param == "nursery")
    monkeypatch.setenv("TOWPATH_LOG__URL", "none of the child's business")
    monkeypatch.setenv("COLOUR", "green")
    made: list[ChildProcess] = []

    def start(act: str, module: str = "tests.support.obedient", crash_at: str | None = None, **told: Any) -> Any:
        order = {"act": act, **told}
        made.append(ChildProcess(module, order, log=tmp_path / "log", crash_at=crash_at, cwd=ROOT))
        return made[-1]

    yield start
    for child in made:
        with child:
            pass


def test_it_has_an_environment_of_its_own_and_its_exit_code_is_known(start: Start) -> None:
    child = start("end", code=3)
    assert child.wait() == 3
    assert child.exit_code == 3
    assert not child.is_running
    assert child.log_tail() == f"{ROOT} None green __main__"
    child.signal(signal.SIGTERM)  # no error


def test_what_it_raises_is_in_its_log(start: Start) -> None:
    with pytest.raises(ChildFailed, match="ValueError: as told"):
        start("raise").wait_done()
    with pytest.raises(ChildFailed, match="No module named"):
        start("end", "tests.support.nothing").wait_done()


def test_only_who_is_armed_dies(start: Start) -> None:
    point = CrashPoint.BATCH_LOADED
    children = [start("pass", crash_at=at) for at in (f"{point}:1", f"{point}:2", None)]
    children[0].wait_killed()
    for child in children[1:]:
        child.wait_done()


@pytest.mark.realtime
def test_signals_reach_it(start: Start, tmp_path: Path) -> None:
    child = start("wait", ready=str(tmp_path / "ready"))
    wait_until((tmp_path / "ready").exists, 60)
    child.signal(signal.SIGSTOP)
    child.wait_stopped()
    child.signal(signal.SIGCONT)
    with pytest.raises(ChildFailed):
        child.wait(0.2)
    child.signal(signal.SIGTERM)
    assert child.wait() == 7
    other = start("wait", ready=str(tmp_path / "other"))
    wait_until((tmp_path / "other").exists, 60)
    other.signal(signal.SIGINT)
    assert other.wait() != 0
    assert "KeyboardInterrupt" in other.log_tail()


@pytest.mark.parametrize("is_quick", [False, True])
def test_it_ends_with_the_process_that_started_it(tmp_path: Path, is_quick: bool) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from towpath.testing import processes
from towpath.testing.clock import wait_until
processes._are_quick = {is_quick}
home = Path({str(tmp_path)!r})
told = {{"act": "wait", "leave": True, "ready": str(home / "ready")}}
child = processes.ChildProcess("tests.support.obedient", told, log=home / "log", cwd=Path({str(ROOT)!r}))
wait_until((home / "ready").exists, 60)
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 30, "the child is gone as well")
