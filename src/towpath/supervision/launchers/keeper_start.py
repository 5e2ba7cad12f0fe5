"""Starting a keeper, and hearing from it how far it has come."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from towpath.crash import CrashPoint, here
from towpath.errors import LauncherAway
from towpath.supervision.launchers.home import LaunchHome
from towpath.supervision.launchers.launch_spec import LAUNCH_VARIABLE
from towpath.supervision.launchers.settling import last_words

KEEPER_MODULE = "towpath.supervision.launchers.keeper"
ANSWER_TIMEOUT_S = 30.0


def start_keeper(home: LaunchHome, spec: Mapping[str, Any], adopt: Callable[[int], None]) -> None:
    """Start one, and wait until the launch is begun, by it or by another. `adopt` is called with its number."""
    answers, answer = os.pipe()
    try:
        try:
            adopt(_spawn(home, spec, answer))
        finally:
            os.close(answer)
        here(CrashPoint.LAUNCHER_KEEPER_SPAWNED)
        told = _read_answer(answers, ANSWER_TIMEOUT_S)
    finally:
        os.close(answers)
    if told is None:
        raise LauncherAway(f"the keeper of {home.path} did not answer within {ANSWER_TIMEOUT_S:g} s")
    if not told and not home.has_begun:
        raise LauncherAway(f"the keeper of {home.path} ended before it had begun{last_words(home)}")
    if trouble := told.get("trouble"):
        raise LauncherAway(f"{home.path} cannot be used: {trouble}")


def _spawn(home: LaunchHome, spec: Mapping[str, Any], answer: int) -> int:
    """Its number. It has no launch of its own: what keeps a process does not end with whoever has started it."""
    environment = {name: value for name, value in os.environ.items() if name != LAUNCH_VARIABLE}
    with _in_memory(json.dumps(spec).encode()) as told:
        actions = [
            (os.POSIX_SPAWN_DUP2, told, 0),
            (os.POSIX_SPAWN_DUP2, answer, 1),
            (os.POSIX_SPAWN_OPEN, 2, str(home.errors), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        ]
        try:
            return os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", KEEPER_MODULE, str(home.path)],
                environment,
                file_actions=actions,
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except OSError as error:
            raise LauncherAway(f"this machine starts no more processes: {error.strerror}") from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """A file without a name, on no disk where that can be: passwords may be in it."""
    with open(os.memfd_create("launch"), "w+b") if hasattr(os, "memfd_create") else TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _read_answer(pipe: int, timeout_s: float) -> dict[str, Any] | None:
    """What the keeper says; nothing if it ended without a word; None when the time is over."""
    told, deadline = b"", time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while not told.endswith(b"\n"):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        data = os.read(pipe, 4096)
        if not data:
            return {}
        told += data
    answer: dict[str, Any] = json.loads(told)
    return answer
