"""A daemon: it goes on without us, is found again, ends whole, and a stranger with its number is never touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath.core import os_processes as processes
from towpath.errors import ServerFailed
from towpath.stack import daemon as daemon_module
from towpath.stack.daemon import Daemon
from towpath.stack.server import explaining
from towpath.stack.user import current_user
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.processes

WAITING = "import signal; print('ready', flush=True); signal.pause()"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile 1: signal.pause()"
)
WITH_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAITING!r}, sys.argv[1]]); {WAITING}"


# Its first thread ends when it is told to, the other one a moment later.
ENDS_SLOWLY = """
import ctypes, os, signal, threading, time
told = threading.Event()
threading.Thread(target=lambda: (told.wait(), time.sleep(1), os._exit(0))).start()
signal.signal(signal.SIGTERM, lambda *_: (told.set(), ctypes.CDLL(None).pthread_exit(None)))
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon("server", tmp_path, current_user())
    yield made
    made.kill()


def start(daemon: Daemon, tmp_path: Path, program: str = WAITING) -> int:
    daemon.start([sys.executable, "-c", program, f"{tmp_path}/x"], os.environ)
    wait_until(lambda: "ready" in daemon.log.read_text(), what="the program is ready")
    assert daemon.pid is not None
    return daemon.pid


def running_with(mark: str) -> list[processes.RunningProcess]:
    found = (processes.find_process(int(path.name)) for path in processes.PROC.iterdir() if path.name.isdigit())
    return [running for running in found if running is not None and running.is_marked(mark)]


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else that leads a group of its own."""
    process = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.DEVNULL, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_it_leads_a_session_and_is_found_by_another_object(daemon: Daemon, tmp_path: Path) -> None:
    pid = start(daemon, tmp_path)
    assert os.getsid(pid) == pid
    assert Daemon("server", tmp_path, current_user()).pid == pid


def test_stop_ends_it_and_its_children(daemon: Daemon, tmp_path: Path) -> None:
    pid = start(daemon, tmp_path, WITH_CHILD)
    wait_until(lambda: len(processes.group_members(pid)) == 2)
    daemon.stop()
    assert daemon.pid is None
    assert processes.group_members(pid) == []
    daemon.stop()


def test_it_has_ended_when_its_last_thread_has(daemon: Daemon, tmp_path: Path) -> None:
    pid = start(daemon, tmp_path, ENDS_SLOWLY)
    daemon.stop()
    assert processes.find_process(pid) is None


def test_who_is_ending_when_it_is_killed_has_ended_afterwards(daemon: Daemon, tmp_path: Path) -> None:
    pid = start(daemon, tmp_path, ENDS_SLOWLY)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: daemon.pid is None)
    daemon.kill()
    assert processes.find_process(pid) is None


def test_one_that_does_not_listen_is_ended_by_force(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "STOP_TIMEOUT_S", 0.2)
    start(daemon, tmp_path, DEAF)
    daemon.stop()
    assert daemon.pid is None


def test_children_of_one_that_died_are_ended_too(daemon: Daemon, tmp_path: Path) -> None:
    pid = start(daemon, tmp_path, WITH_CHILD)
    wait_until(lambda: len(processes.group_members(pid)) == 2)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: daemon.pid is None)
    daemon.stop()
    assert processes.group_members(pid) == []


@pytest.mark.parametrize("content", ["", "nonsense", "999999999", "0", "-1"])
def test_a_stale_pid_file_is_no_obstacle(content: str, daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "server.pid").write_text(content)
    assert daemon.pid is None
    daemon.stop()
    start(daemon, tmp_path)


def test_a_stranger_with_its_number_is_not_touched(
    daemon: Daemon, tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "server.pid").write_text(f"{stranger.pid}\n")
    assert daemon.pid is None
    daemon.stop()
    daemon.kill()
    assert stranger.poll() is None
    start(daemon, tmp_path)
    assert stranger.poll() is None


def test_a_neighbour_whose_directory_begins_with_ours_is_not_touched(tmp_path: Path, daemon: Daemon) -> None:
    longer = Path(f"{tmp_path}-2")
    longer.mkdir()
    neighbour = Daemon("server", longer, current_user())
    pid = start(neighbour, longer)
    try:
        (tmp_path / "server.pid").write_text(f"{pid}\n")
        daemon.stop()
        assert neighbour.pid == pid
    finally:
        neighbour.kill()


def test_one_that_ends_at_once_has_its_words_in_the_log(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start([sys.executable, "-c", "print('oh no')", f"{tmp_path}/x"], os.environ)
    wait_until(lambda: daemon.pid is None)
    assert daemon.log.read_text() == "oh no\n"


def test_one_whose_number_cannot_be_noted_is_not_begun(daemon: Daemon, tmp_path: Path) -> None:
    """On a full disk a server would run that nobody finds again."""
    daemon._pid_file = tmp_path / "not there" / "server.pid"
    with pytest.raises(ServerFailed, match=r"server\.pid"):
        daemon.start([sys.executable, "-c", WAITING, f"{tmp_path}/x"], os.environ)
    assert running_with(f"{tmp_path}/") == []


def test_a_directory_in_place_of_its_pid_file_is_told(daemon: Daemon, tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    pid_file.mkdir()
    assert daemon.pid is None
    with pytest.raises(ServerFailed, match=r"Is a directory: .*server\.pid"), explaining("server", tmp_path):
        daemon.start([sys.executable, "-c", WAITING, f"{tmp_path}/x"], os.environ)
    assert running_with(f"{tmp_path}/") == []
    pid_file.rmdir()


def test_a_start_that_takes_too_long_leaves_nothing(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that has begun something and does not come to writing its number."""
    monkeypatch.setattr(daemon_module, "_BECOME", 'shift; "$@" & wait')
    monkeypatch.setattr(daemon_module, "PID_TIMEOUT_S", 0.3)
    with pytest.raises(ServerFailed, match=r"0\.3 s"):
        daemon.start([sys.executable, "-c", WAITING, f"{tmp_path}/x"], os.environ)
    assert running_with(f"{tmp_path}/") == []


def test_each_start_has_a_log_of_its_own_and_the_last_one_stays(daemon: Daemon, tmp_path: Path) -> None:
    for text in ("first", "second"):
        daemon.start([sys.executable, "-c", f"print({text!r})", f"{tmp_path}/x"], os.environ)
        wait_until(lambda: daemon.pid is None)
    assert daemon.log.read_text() == "second\n"
    assert (tmp_path / "server.log.1").read_text() == "first\n"


def test_one_that_becomes_another_program_is_never_without_a_command() -> None:
    """For a moment the kernel tells none: a server that has just been started would be taken for a stranger."""
    seen = set()
    for _ in range(50):
        process = subprocess.Popen(["/bin/sh", "-c", 'exec "$@"', "sh", "/bin/sleep", "0.02"])
        while running := processes.find_process(process.pid):
            seen.add(running.command)
        process.wait()
    assert "" not in seen
    assert "/bin/sleep 0.02 " in seen


def test_one_that_has_ended_and_was_not_waited_for_does_not_run() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        wait_until(lambda: processes.find_process(process.pid) is None)
    finally:
        process.wait()


def test_the_list_of_ps_serves_where_there_is_no_proc(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = start(daemon, tmp_path)
    monkeypatch.setattr(processes, "PROC", tmp_path / "no-proc")
    assert daemon.pid == pid
    assert [it.pid for it in processes.group_members(pid)] == [pid]
    daemon.kill()
    assert daemon.pid is None
