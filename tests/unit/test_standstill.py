"""Whoever waits with a limit may stand still itself: what came true meanwhile counts, although the time is over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from towpath.core import os_processes
from towpath.errors import ServerFailed
from towpath.stack import daemon, server
from towpath.stack.postgres import PostgresServer
from towpath.supervision.launchers import keeper, process_tree
from towpath.supervision.launchers.keeper_home import LaunchHome
from towpath.testing import clock as waiting

HOURS_S = 3600.0


@dataclass
class Standing:
    """The time of a process that stands still whenever it is told to."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def stand_still(self) -> None:
        self.now += HOURS_S


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Standing:
    made = Standing()
    for module in (waiting, daemon, server, keeper, process_tree, os_processes):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def comes_true(clock: Standing) -> Callable[[], bool]:
    """False at the first look, after which we stand still; true from then on."""
    looks: list[bool] = []

    def look() -> bool:
        looks.append(bool(looks))
        if len(looks) == 1:
            clock.stand_still()
        return looks[-1]

    return look


def test_a_test_looks_again_before_it_gives_up(comes_true: Callable[[], bool]) -> None:
    waiting.wait_until(comes_true, 10)


def test_a_test_gives_up(clock: Standing) -> None:
    with pytest.raises(TimeoutError, match="10 s"):
        waiting.wait_until(lambda: False, 10)
    assert clock.now == pytest.approx(10, abs=0.1)


def test_work_that_goes_on_may_take_any_time(clock: Standing) -> None:
    waiting.wait_while_it_goes_on(lambda: clock.now > HOURS_S, lambda: int(clock.now) // 9, 10)


def test_work_that_does_not_go_on_is_given_up(clock: Standing) -> None:
    with pytest.raises(TimeoutError, match="changed"):
        waiting.wait_while_it_goes_on(lambda: False, lambda: min(clock.now, 100), 10)
    assert 100 < clock.now < 120


def test_a_daemon_is_looked_at_again_before_its_time_is_over(comes_true: Callable[[], bool]) -> None:
    assert daemon._wait(comes_true, 10)


def test_a_daemon_is_not_waited_for_forever(clock: Standing) -> None:
    assert not daemon._wait(lambda: False, 10)
    assert 10 <= clock.now < 11


class Starting(PostgresServer):
    """A server that answers as it is told."""

    is_running = True
    start_timeout_s = 90.0  # PostgreSQL itself may recover for as long as it takes

    def __init__(self, answers: Callable[[], bool]) -> None:
        self._answers = answers
        self.data_dir = Path("nowhere")
        self.is_killed = False

    def is_healthy(self) -> bool:
        return self._answers()

    def kill(self) -> None:
        self.is_killed = True


def test_a_server_that_answers_by_now_is_not_killed(comes_true: Callable[[], bool]) -> None:
    starting = Starting(comes_true)
    starting.await_ready()
    assert not starting.is_killed


def test_a_server_that_never_answers_is_killed(clock: Standing) -> None:
    starting = Starting(lambda: False)
    with pytest.raises(ServerFailed):
        starting.await_ready()
    assert starting.is_killed


def test_who_is_left_of_a_launch_is_ended_before_it_is_told(clock: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    sign, real = f"STANDSTILL_TEST={uuid4().hex}", process_tree.process_tree

    def slow(*words: Any) -> list[int]:
        found = list(real(*words))
        clock.stand_still()
        return found

    monkeypatch.setattr(process_tree, "process_tree", slow)
    name, _, value = sign.partition("=")
    with subprocess.Popen(["sleep", "600"], env={**os.environ, name: value}) as process:
        try:
            process_tree.end_process_tree(sign, None, 10)
            assert process.wait(60) == -9
        finally:
            process.kill()


def test_the_last_words_of_a_process_are_written_down(
    clock: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper stands still between two looks at the time."""
    spec = {"variable": "A", "sign": "b", "log": {"file_mb": 1, "files": 1}}
    made = keeper.LaunchKeeper(LaunchHome(tmp_path), spec, 0)
    os.set_blocking(made._output, False)
    last_words = b"x" * 40_000 + b"\nthe disk is full\n"
    os.write(made._input, last_words)

    def later() -> float:
        clock.stand_still()
        return clock.now

    monkeypatch.setattr(clock, "monotonic", later)
    try:
        made._write_rest()
        assert (tmp_path / "log").read_bytes() == last_words
    finally:
        for each in (made._output, made._input, made._woken, made._wake):
            os.close(each)


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("command", [b"", b"/bin/sleep\0001\000"])
def test_a_process_that_ends_or_becomes_another_during_a_look_is_looked_at_again(
    clock: Standing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: bytes, is_before: bool
) -> None:
    """The kernel tells no command of it for a moment, and the look itself stands still for longer than that."""
    home = tmp_path / "7"
    (home / "task" / "7").mkdir(parents=True)
    (home / "cmdline").write_bytes(b"")
    (home / "stat").write_text("7 (sh) R 1 7 7 0 -1 0 0")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    real, looks = os_processes._fields, 0

    def look(pid: int) -> list[str]:
        nonlocal looks
        looks += 1
        found = [] if is_before and looks == 1 else real(pid)
        if looks == 1:
            clock.stand_still()
            (home / "cmdline").write_bytes(command)
            (home / "stat").write_text(f"7 (sh) {'R' if command else 'Z'} 1 7 7 0 -1 0 0")
        return found or real(pid)

    monkeypatch.setattr(os_processes, "PROC", tmp_path)
    monkeypatch.setattr(os_processes, "_fields", look)
    found = os_processes.find_process(7)
    assert (found and found.command) == ("/bin/sleep 1 " if command else None)
