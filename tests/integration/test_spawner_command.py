"""Spawners that run plain commands: what goes in, what comes out, and what a command may do wrong."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.spawned import Rig, command, is_spawned

from towpath.testing.clock import wait_until

ECHO = """
import json, os, sys
given = json.load(sys.stdin)
print("towpath: 40% fetching", flush=True)
print(json.dumps([given, os.environ["SPAWNED_FUNCTION"]]))
"""
HOSTILE = """
import json, os, sys, subprocess
kind = sys.stdin.read(200)
out, err = sys.stdout.buffer, sys.stderr.buffer
if "binary" in kind:
    err.write(bytes(range(256)) * 50 + b"the \\xff end")
    sys.exit(7)
if "huge" in kind:
    for _ in range(200):
        out.write(b"x" * 100_000)
    out.write(b'\\n{"fine": true}\\n')
if "endless line" in kind:
    out.write(b"[" * 5_000_000)
if "deaf" in kind:
    print(1)
if "text" in kind:
    print("done, thank you")
if "nan" in kind:
    print("NaN")
if "nul" in kind:
    print('"\\\\u0000"')
if "daemon" in kind:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print('"started"')
"""
HOLD = """
import json, os, pathlib, sys, time
home = pathlib.Path(json.load(sys.stdin))
with (home / "pids").open("a") as file:
    file.write(f"{os.getpid()}\\n")
while not (home / "gate").exists():
    time.sleep(0.02)
print('"held"')
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_a_command_is_given_the_payload_and_answers(rig: Rig) -> None:
    echo = command("echo", ECHO)
    rig.run(echo)
    for payload in ({"name": "Größe \U0001f6b2", "deep": [[[]]]}, None, "x" * 900_000):
        assert rig.ask(echo, payload).payload == [payload, "DO"]
    log = rig.runtime.settings.actors.directory
    assert b"towpath: 40% fetching" in (Path(log) / "made-echo-main.log").read_bytes()


@pytest.mark.part("kills")
def test_hostile_commands(rig: Rig) -> None:
    hostile = command("hostile", HOSTILE)
    hostile.linger_s = 30.0
    rig.run(hostile)
    failed = rig.ask(hostile, "binary")
    assert not failed.is_ok
    assert "python" in failed.payload["error"]
    assert "exit code 7" in failed.payload["error"]
    assert failed.payload["error"].endswith("the \N{REPLACEMENT CHARACTER} end")
    assert rig.ask(hostile, "huge").payload == {"fine": True}
    log = Path(rig.runtime.settings.actors.directory) / "made-hostile-main.log"
    wait_until(lambda: log.stat().st_size < 6 << 20, 30, "a log that was cut")
    assert rig.ask(hostile, "endless line").payload is None
    assert rig.ask(hostile, ["deaf", "x" * 900_000]).payload == 1  # it ends before it has read all
    assert rig.ask(hostile, "text").payload is None
    assert rig.ask(hostile, "nan").payload is None
    assert "NUL" in rig.ask(hostile, "nul").payload["error"]
    assert rig.ask(hostile, "daemon").payload == "started"
    row = rig.row(hostile)
    assert row is not None
    assert row.done == 8  # all by one process


@pytest.mark.part("kills")
def test_a_command_is_killed_with_the_process_that_runs_it(rig: Rig, tmp_path: Path) -> None:
    hold = command("hold", HOLD)
    rig.run(hold)
    question = rig.send(hold, str(tmp_path))
    pids = tmp_path / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), 60)
    row = rig.wait_row(hold, lambda row: row.message_id == question)
    assert row.pid is not None
    os.kill(row.pid, signal.SIGKILL)  # the command itself goes on, and would go on beside the next one
    wait_until(lambda: pids.read_text().count("\n") == 2, 60, "a second command")
    first, second = map(int, pids.read_text().split())
    assert not is_alive(first)
    assert is_alive(second)
    (tmp_path / "gate").touch()
    assert rig.outbox.wait(question, 60).payload == "held"


def test_abort_ends_the_command(rig: Rig, tmp_path: Path) -> None:
    hold = command("hold", HOLD)
    rig.run(hold)
    rig.send(hold, str(tmp_path))
    pids = tmp_path / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), 60)
    row = rig.row(hold)
    rig.actors.abort("made-hold", who="lev", why="enough")
    rig.wait_failed(hold)
    assert not is_alive(int(pids.read_text()))
    assert row is not None
    assert not is_spawned(row.pid or 0)


@pytest.mark.part("kills")
def test_progress_of_a_command(rig: Rig, tmp_path: Path) -> None:
    told = command("told", "print('towpath: 12.5% half an eighth', flush=True)\n" + HOLD)
    rig.run(told)
    question = rig.send(told, str(tmp_path))
    row = rig.wait_row(told, lambda row: row.percent == 12.5)
    assert row.stage == "half an eighth"
    (tmp_path / "gate").touch()
    assert rig.outbox.wait(question, 60).payload == "held"
