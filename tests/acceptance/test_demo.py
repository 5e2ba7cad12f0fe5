"""`towpath demo`, for real: real workers, a real SIGKILL, and a verdict that is read from the tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import sigint
from tests.support.tables import rows

from towpath.runtime import connect
from towpath.testing.clock import wait_until

REQUESTS = 200
TIMEOUT_S = 110
DEMO = (sys.executable, "-m", "towpath", "demo", "--queue", "--requests", str(REQUESTS))


def workers_in(directory: Path) -> list[int]:
    """The processes that work in this directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has just ended
            if "towpath.demo.queue_worker" in words and str(directory) in words:
                found.append(int(entry.name))
    return found


def test_every_request_is_answered_once(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    # Variables of the person's own set-up must not get in.
    environment = {**os.environ, "TOWPATH_DATABASE__URL": "sqlite:////does/not/exist.db"}
    done = subprocess.run(
        [*DEMO, "--keep", str(home), "--json"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    ledger = json.loads(done.stdout)
    assert ledger["is_as_promised"]
    assert ledger["states"] == {"NEW": 0, "ACK": 0, "OK": REQUESTS, "ERR": 0, "DEAD": 0}
    assert (ledger["answers_min"], ledger["answers_max"], ledger["right_answers"]) == (1, 1, REQUESTS)
    assert sum(worker["answered"] for worker in ledger["workers"]) == REQUESTS
    victim, survivor = ledger["workers"]
    assert (victim["died"], survivor["died"]) == (True, False)
    assert 0 < victim["worked_on"] - victim["answered"] == ledger["worked_on_twice"] <= ledger["claims_freed"]
    assert survivor["worked_on"] == survivor["answered"]
    assert workers_in(home) == []

    with connect(f"sqlite:///{home}/towpath.db") as runtime:
        messages = rows(runtime.database, "message")
        answers = [message["related_id"] for message in messages if message["inbox"] == "client//reply"]
        requests = [message["id"] for message in messages if message["inbox"] == "numbers"]
        assert sorted(answers) == sorted(requests)
        freed = [message for message in messages if message["attempts"] == 2]
        assert len(freed) == ledger["claims_freed"]


@pytest.mark.part("guides")
def test_it_tells_people_what_happened(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    command = [*DEMO, "--keep", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "SIGKILL" in done.stderr
    assert f" {REQUESTS} " in done.stdout
    next_step = next(line for line in done.stdout.splitlines() if line.endswith("queue inboxes")).split()
    look = [sys.executable, "-m", "towpath", *next_step[1:]]
    shown = subprocess.run(look, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    assert "numbers" in shown

    again = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert again.returncode == 2
    assert str(home) in again.stderr


def interrupted(tmp_path: Path, how: signal.Signals) -> tuple[int, str]:
    """Begin a long demo, send the signal when its workers are at it; its exit code and what it said."""
    home = tmp_path / "demo"
    command = [*DEMO[:-1], "50000", "--keep", str(home)]
    with sigint():
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with demo:
        assert demo.stderr is not None
        wait_until(lambda: "the client sends" in str(demo.stderr and demo.stderr.readline()), 60)
        assert len(workers_in(home)) == 2
        demo.send_signal(how)
        _, said = demo.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: workers_in(home) == [], 30, "the end of the workers")
    return demo.returncode, said


def test_ctrl_c_leaves_no_worker_behind(tmp_path: Path) -> None:
    code, said = interrupted(tmp_path, signal.SIGINT)
    assert code == 130
    assert "Traceback" not in said


@pytest.mark.part("guides")
def test_the_death_of_the_demo_itself_leaves_no_worker_behind(tmp_path: Path) -> None:
    code, _ = interrupted(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
