"""`make steady` on real processes: its disk is slow, and whoever it stops is continued in any case."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from steady.preload import Preload, preload
from steady.round import Load, Round
from steady.stopper import look

from towpath.testing.clock import wait_until
from towpath.testing.servers import postgres_server

pytestmark = pytest.mark.realtime

DELAY_S = 0.2
FSYNC = """
import os, sys, time
with open(sys.argv[1], "w") as file:
    began = time.monotonic()
    os.fsync(file.fileno())
    print(time.monotonic() - began)
    began = time.monotonic()
    os.fdatasync(file.fileno())
    print(time.monotonic() - began)
"""
COMMIT = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1])
began = time.monotonic()
connection.execute("create table made (id integer)")
print(time.monotonic() - began)
"""


@pytest.fixture
def library() -> Iterator[Preload]:
    with preload() as made:
        yield made


def loaded(library: Preload, *command: str) -> str:
    environment = {**os.environ, **library.environment()}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_fsync_takes_longer_and_is_counted(library: Preload, tmp_path: Path) -> None:
    took = loaded(library, sys.executable, "-c", FSYNC, str(tmp_path / "file")).split()
    assert [float(each) >= DELAY_S for each in took] == [True, True]
    assert library.shared.delayed == 2


def test_a_commit_to_sqlite_takes_longer(library: Preload, tmp_path: Path) -> None:
    took = loaded(library, sys.executable, "-c", COMMIT, str(tmp_path / "base.db"))
    assert float(took) >= DELAY_S
    assert library.shared.delayed
    with closing(sqlite3.connect(tmp_path / "base.db")) as connection:
        assert connection.execute("select count(*) from made").fetchone() == (0,)


def test_a_commit_to_postgresql_takes_longer(library: Preload, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server runs as another user; the library has to be where that user can read it."""
    for name, value in library.environment().items():
        monkeypatch.setenv(name, value)
    with postgres_server() as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create table made (id integer)")
        before, began = library.shared.delayed, time.monotonic()
        connection.execute("insert into made values (1)")
        assert time.monotonic() - began >= DELAY_S
        assert library.shared.delayed > before


@contextmanager
def child(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def stopper(root: int, library: Preload, journal: Path, **order: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Strikes this one process at once, and would let it stand for a minute."""
    told = {"root": root, "mark": "STEADY_RUN=none", "seed": 7, "pause_s": 0.05, "stop_s": 60.0, **order}
    journal.touch()
    told.update(shared=str(library.shared.path), journal=str(journal))
    with child(sys.executable, "-m", "steady.stopper", json.dumps(told), stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with child("sleep", "600") as process:
        yield process


def is_stopped(pid: int) -> bool:
    found = look(pid)
    assert found is not None, "it has ended"
    return found.is_stopped


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_who_is_stopped_goes_on_when_the_stopper_dies(
    how: signal.Signals, library: Preload, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with stopper(sleeper.pid, library, tmp_path / "journal") as process:
        wait_until(lambda: is_stopped(sleeper.pid), what="it is stopped")
        process.send_signal(how)
        process.wait()
        wait_until(lambda: not is_stopped(sleeper.pid), what="it goes on")


def test_who_is_stopped_goes_on_at_the_end_of_the_round(
    library: Preload, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with stopper(sleeper.pid, library, tmp_path / "journal") as process:
        wait_until(lambda: is_stopped(sleeper.pid), what="it is stopped")
        process.communicate()
        assert process.returncode == 0
        assert not is_stopped(sleeper.pid)
    assert [json.loads(line)["pid"] for line in (tmp_path / "journal").read_text().splitlines()] == [sleeper.pid]


def test_who_is_stopped_goes_on_after_its_time_and_is_stopped_again(
    library: Preload, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with stopper(sleeper.pid, library, tmp_path / "journal", stop_s=0.2):
        wait_until(lambda: len((tmp_path / "journal").read_text().splitlines()) > 3, what="four stops")


def test_who_is_stopped_by_a_test_meanwhile_stays_where_it_is(
    library: Preload, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with stopper(sleeper.pid, library, tmp_path / "journal") as process:
        wait_until(lambda: is_stopped(sleeper.pid), what="it is stopped")
        loaded(library, sys.executable, "-c", f"import os; os.kill({sleeper.pid}, {int(signal.SIGSTOP)})")
        process.communicate()
        assert is_stopped(sleeper.pid)
    loaded(library, sys.executable, "-c", f"import os; os.kill({sleeper.pid}, {int(signal.SIGCONT)})")
    wait_until(lambda: not is_stopped(sleeper.pid), what="the test lets it go on")
    assert not library.shared.is_held(sleeper.pid)


TESTS = """
import os, subprocess, sys, time
import pytest

def test_slow_disk(tmp_path):
    with (tmp_path / "file").open("w") as file:
        os.fsync(file.fileno())
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        time.sleep(0.01)

def test_that_leaves_a_process_behind():
    left = subprocess.Popen(["sleep", "600" if {holds!r} else "0"], start_new_session=True)
    with open({pids!r}, "a") as pids:
        pids.write(f"{{left.pid}}\\n")
    left.returncode = 0  # no warning

def test_that_fails():
    print("what it said")
    assert {holds!r}

@pytest.fixture
def bad_cleaning():
    yield
    assert {holds!r}

def test_that_fails_in_the_end(bad_cleaning):
    pass
"""


@pytest.mark.part("kills")
@pytest.mark.parametrize("holds", [True, False])
def test_a_round(holds: bool, tmp_path: Path) -> None:
    tests, pids = tmp_path / "test_some.py", tmp_path / "pids"
    tests.write_text(TESTS.format(pids=str(pids), holds=holds))
    outcome = Round(7, tmp_path, "round", [str(tests)], Load(busy=1, pause_s=0.2, stop_s=0.2)).run(1)
    assert outcome.stops
    assert outcome.delayed
    names = sorted(each.partition("::")[2] for each in outcome.failed)
    if holds:
        assert (outcome.passed, names, outcome.problems) == (4, [], [])
    else:
        assert (outcome.passed, names) == (2, ["test_that_fails", "test_that_fails_in_the_end"])
        assert "what it said" in Path(outcome.output).read_text()
    assert [look(int(pid)) for pid in pids.read_text().split()] == [None]
