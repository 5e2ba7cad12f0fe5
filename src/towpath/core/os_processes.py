"""Whether a process of this machine is gone: asked of the kernel, which knows it at once and for certain.

A lease that ran out says only that somebody has not been heard of. On the same machine there is no need to wait for
that. Where the kernel cannot be asked (no `/proc`), nothing is known, and leases alone decide.

What runs on this machine, to tell a server of ours from a stranger that has got its number.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_ENDED = ("Z", "X")  # a zombie's parent has not looked yet, but it does nothing any more


@cache
def machine() -> str:
    """Who shares it sees the same processes under the same numbers, until the next boot; empty where unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        numbers = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{socket.gethostname()}/{boot}/{numbers}"


def born(pid: int) -> str:
    """When a process began, by the kernel's count: with its number it is no other's. Empty: it is gone, or unknown."""
    fields = _fields(pid)
    return "" if not fields or fields[0] in _ENDED else fields[19]


def is_standing_still(pid: int) -> bool:
    """Whether a signal or a debugger has stopped it. False also when nobody here can know."""
    return _fields(pid)[:1] in (["T"], ["t"])


def _fields(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on; nothing when it is gone, or unknown."""
    try:
        # The name of the program, in brackets, may hold anything; what follows it does not.
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def is_gone(of_machine: str, pid: int, when_born: str) -> bool:
    """Whether that process has certainly ended. False also when nobody here can know."""
    return bool(when_born) and of_machine == machine() != "" and born(pid) != when_born


def me() -> tuple[str, int, str]:
    """This process, as `is_gone` takes it."""
    return machine(), os.getpid(), born(os.getpid())


PROC = Path("/proc")
OF_THE_KERNEL = 0x00200000  # PF_KTHREAD
BECOMING_S = 0.5
LOOK_S = 0.001


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One process that runs; those that have ended and wait for their parent to notice do not count.

    A killed process whose first thread has ended runs as long as another has not: its files and ports stay open.
    """

    pid: int
    group: int
    command: str

    def is_marked(self, mark: str) -> bool:
        return mark in self.command


def find_process(pid: int) -> RunningProcess | None:
    """The process of that number."""
    if not _has_proc():
        return next(_ps("-p", str(pid)), None)
    # While a process becomes another program, and while it ends, the kernel tells no command: asked until it is one or
    # the other. Threads of the kernel never have one, and a program may have taken its own away.
    deadline = time.monotonic() + BECOMING_S
    while True:
        try:
            # The name of the program stands in brackets and may hold anything, brackets too.
            fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            command = (PROC / str(pid) / "cmdline").read_bytes()
            threads = sum(1 for _ in (PROC / str(pid) / "task").iterdir())
        except OSError:
            return None
        has_ended = fields[0] in "ZX"
        if has_ended and threads <= 1:
            return None
        if command or has_ended or int(fields[6]) & OF_THE_KERNEL or time.monotonic() > deadline:
            return RunningProcess(pid, int(fields[2]), os.fsdecode(command.replace(b"\0", b" ")))
        time.sleep(LOOK_S)


def group_members(group: int) -> list[RunningProcess]:
    """All of one process group."""
    if not _has_proc():
        return [running for running in _ps("-A") if running.group == group]
    found = (find_process(int(path.name)) for path in PROC.iterdir() if path.name.isdigit())
    return [running for running in found if running is not None and running.group == group]


def _has_proc() -> bool:
    return (PROC / "self" / "stat").exists()


def _ps(*selection: str) -> Iterator[RunningProcess]:
    words = ["ps", *selection, "-ww", "-o", "pid=,pgid=,stat=,command="]
    said = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False).stdout
    for line in said.splitlines():
        pid, group, state, *command = line.split(None, 3)
        if not state.startswith("Z"):
            yield RunningProcess(int(pid), int(group), command[0] if command else "")
