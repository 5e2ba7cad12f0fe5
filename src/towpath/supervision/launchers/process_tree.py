"""All that belongs to a launch: its process, and whatever that has started.

They are known by their session, which the process leads and its children are born into, and by the sign of the launch
in their environment, which they inherit. Who leaves both behind on purpose (as spawned processes of actors do, which
are to outlive their host) does not belong to it any more.

Imports the standard library only, since the keeper does. Without `/proc` only the process group is known.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
BOOT = PROC / "sys/kernel/random/boot_id"
STEP_S = 0.01
END_TREE_S = 10.0  # how long the end of a launch by force may take
_ENDED = ("Z", "X")
# Places behind the name of the program in what the kernel tells of a process.
_STATE, _SESSION, _FLAGS, _THREADS, _BORN, _CODE_START, _ENV_START, _ENV_END = 0, 3, 6, 17, 19, 23, 47, 48
_IS_KERNEL = 0x00200000
# How long a process may be between two programs, and how often it is looked at meanwhile.
_LONGEST_CHANGE_S, _CHANGE_STEP_S = 1.0, 0.001


def born(pid: int) -> str:
    """When a process began, by the kernel's count: with its number it is no other's. Empty: it is gone, or unknown."""
    fields = _fields(pid)
    return fields[_BORN] if _runs(fields) else ""


def boot() -> str:
    """Which life of this machine it is: in another one every number is another's. Empty: unknown."""
    with suppress(OSError):
        return BOOT.read_text().strip()
    return ""


def session_left(leader: int, leader_born: str, booted: str) -> int | None:
    """The session that a process has led, if it can be no other's.

    As long as somebody is left of a session, the kernel gives its number to nobody. So one that was born at another
    time and has the number is proof that nobody was left; and in another life of the machine numbers mean nothing.
    """
    fields = _fields(leader)
    is_ours = bool(booted) and booted == boot() and (not fields or fields[_BORN] == leader_born)
    return leader if is_ours else None


def process_tree(sign: str, session: int | None = None) -> Iterator[int]:
    """Who belongs to a launch; by its session only as long as its number cannot be another's."""
    mark = os.fsencode(sign)
    for home in PROC.glob("[0-9]*"):
        pid = int(home.name)
        fields = _fields(pid)
        if not _runs(fields) or pid == os.getpid():
            continue
        if (session is not None and int(fields[_SESSION]) == session) or mark in _environment(pid):
            yield pid


def end_process_tree(sign: str, session: int | None, timeout_s: float) -> list[int]:
    """End by force all that belongs to a launch, also what is started meanwhile; who is left after that time."""
    deadline = time.monotonic() + timeout_s
    is_late = False
    while True:
        if session is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)
        left = list(process_tree(sign, session))
        if not left or is_late:
            return left
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(STEP_S)
        is_late = time.monotonic() > deadline  # after a try: this process may have stood still until now


def _runs(fields: list[str]) -> bool:
    """One whose first thread has ended runs as long as another has not: its files and ports stay open."""
    return bool(fields) and (fields[_STATE] not in _ENDED or int(fields[_THREADS]) > 1)


def _fields(pid: int) -> list[str]:
    """What the kernel tells of it, behind the name of its program, which may hold anything."""
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _environment(pid: int) -> list[bytes]:
    """Empty while a process changes its program, which is waited for: nobody can leave a launch by that."""
    deadline = time.monotonic() + _LONGEST_CHANGE_S
    with suppress(OSError):
        while not (told := _told(pid)) and _changes_program(_fields(pid)) and time.monotonic() < deadline:
            time.sleep(_CHANGE_STEP_S)
        return told.split(b"\0")
    return []


def _told(pid: int) -> bytes:
    """By any of its threads: the first one may have ended before the others."""
    threads = PROC / str(pid) / "task"
    for thread in os.listdir(threads):
        with suppress(FileNotFoundError, ProcessLookupError):
            if told := (threads / thread / "environ").read_bytes():
                return told
    return b""


def _changes_program(fields: list[str]) -> bool:
    """Or has just done so: then it has an environment by now."""
    if not _runs(fields) or int(fields[_FLAGS]) & _IS_KERNEL:
        return False
    return fields[_CODE_START] == "0" or fields[_ENV_START] != fields[_ENV_END]
