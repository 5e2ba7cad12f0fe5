"""Who belongs to a launch, by the sign in the environment alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from towpath.supervision.launchers import process_tree as kin_module
from towpath.supervision.launchers.process_tree import end_process_tree, process_tree
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.processes

LOOKS = 1_000
FIRST_THREAD_ENDS = """
import signal, sys, threading
threading.Thread(target=signal.pause).start()
sys.stdout.write("begun\\n"); sys.stdout.flush()
import ctypes
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def sign() -> str:
    return f"TOWPATH_TEST_KIN={uuid4().hex}"


@pytest.fixture
def again(tmp_path: Path) -> str:
    """A script that does nothing but change its program."""
    path = tmp_path / "again"
    path.write_text("exec sh $0\n")
    return str(path)


@contextmanager
def signed(sign: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    name, _, value = sign.partition("=")
    environment = {**os.environ, name: value}
    process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.part("kills")
def test_who_changes_its_program_is_found_at_any_moment(sign: str, again: str) -> None:
    with signed(sign, "sh", again) as process:
        wait_until(lambda: list(process_tree(sign)), 10)
        assert [found for _ in range(LOOKS) if (found := list(process_tree(sign))) != [process.pid]] == []


def test_who_changes_its_program_is_ended(sign: str, again: str) -> None:
    with signed(sign, "sh", again) as process:
        assert end_process_tree(sign, None, 10) == []
        assert process.wait(timeout=10) == -9


def test_who_has_lost_its_first_thread_is_found(sign: str) -> None:
    with signed(sign, sys.executable, "-c", FIRST_THREAD_ENDS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", 10, "its first thread to end")
        assert list(process_tree(sign)) == [process.pid]


def test_who_has_no_environment_is_no_reason_to_wait(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kin_module, "_LONGEST_CHANGE_S", float("inf"))  # who waited would wait for ever
    with (
        subprocess.Popen(["env", "-i", "/bin/sleep", "60"], start_new_session=True) as bare,
        signed(sign, "sleep", "60") as process,
    ):
        wait_until(lambda: Path(f"/proc/{bare.pid}/comm").read_text() == "sleep\n", 10)
        assert list(process_tree(sign)) == [process.pid]
        bare.kill()
