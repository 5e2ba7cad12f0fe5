"""An armed crash point really kills the process, at exactly the pass that was asked for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import towpath
from towpath.core.crash import CrashPoint

PROGRAM = """
from towpath.core.crash import CrashPoint, here
for turn in range(1, 4):
    here(CrashPoint.CLAIM_AFTER_COMMIT)
    here(CrashPoint.SEND_AFTER_COMMIT)
    print("passed", turn, flush=True)
"""


def run(setting: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TOWPATH_CRASH"}
    if setting is not None:
        environment["TOWPATH_CRASH"] = setting
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("setting", "passed"), [("send_after_commit", 0), ("send_after_commit:1", 0), ("claim_after_commit:3", 2)]
)
def test_dies_by_sigkill_at_the_nth_pass(setting: str, passed: int) -> None:
    done = run(setting)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split("\n")[:-1] == [f"passed {turn}" for turn in range(1, passed + 1)]


@pytest.mark.parametrize("setting", [None, "", "finish_after_commit", "send_after_commit:4"])
def test_passes_when_not_armed_here(setting: str | None) -> None:
    done = run(setting)
    assert (done.returncode, done.stdout) == (0, "passed 1\npassed 2\npassed 3\n")


@pytest.mark.parametrize(
    "setting", ["nowhere", "send_after_commit:x", "send_after_commit:0", "send_after_commit:-1", ":1"]
)
def test_a_setting_that_names_no_point_is_refused(setting: str) -> None:
    done = run(setting)
    assert done.returncode == 1
    assert "BadSettings" in done.stderr
    assert repr(setting) in done.stderr
    assert "send_before_commit" in done.stderr


def test_every_point_is_passed_somewhere() -> None:
    source = "".join(
        path.read_text() for path in Path(towpath.__file__).parent.rglob("*.py") if path.name != "crash.py"
    )
    assert set(re.findall(r"CrashPoint\.([A-Z_]+)\b", source)) == {point.name for point in CrashPoint}
