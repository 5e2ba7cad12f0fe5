"""What the kernel of this machine knows about processes: whether one has ended, and what runs.

An expired lease only says that nobody has heard of a process. On the same machine there is no need to wait for that:
the kernel knows at once and for certain. Where it cannot be asked (no `/proc`), leases alone decide. The commands of
what runs tell a server of ours from a stranger that has got its process number.
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

PROC = Path("/proc")
_ENDED = ("Z", "X")  # a zombie's parent has not looked yet, but it does nothing any more
OF_THE_KERNEL = 0x00200000  # PF_KTHREAD
BECOMING_S = 0.5
LOOK_S = 0.001


@cache
def machine() -> str:
    """A name for everything that sees the same processes under the same numbers, until the next boot.

    Empty where the kernel cannot be asked.
    """
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        numbers = (PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{socket.gethostname()}/{boot}/{numbers}"


def me() -> tuple[str, int, str]:
    """This process, as `is_gone` takes it."""
    return machine(), os.getpid(), born(os.getpid())


def born(pid: int) -> str:
    """When a process started, by the kernel's count; with the process number it is unique. Empty: gone, or unknown."""
    fields = _fields(pid)
    return "" if not fields or fields[0] in _ENDED else fields[19]


def is_gone(of_machine: str, pid: int, when_born: str) -> bool:
    """Whether that process has certainly ended. False also when it cannot be known here."""
    return bool(when_born) and of_machine == machine() != "" and born(pid) != when_born


def is_standing_still(pid: int) -> bool:
    """Whether a signal or a debugger has stopped it. False also when it cannot be known here."""
    return _fields(pid)[:1] in (["T"], ["t"])


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
    # the other. Threads of the kernel never have one, and a program may have taken its own away. This process may be
    # stopped in the middle of a look: only a look that began after the deadline ends the wait, and the state is read
    # after the command, which is empty once the process has ended.
    deadline = time.monotonic() + BECOMING_S
    while True:
        is_last = time.monotonic() > deadline
        try:
            command = (PROC / str(pid) / "cmdline").read_bytes()
            fields = _fields(pid)
            threads = sum(1 for _ in (PROC / str(pid) / "task").iterdir())
        except OSError:
            return None
        if not fields:
            return None
        has_ended = fields[0] in _ENDED
        if has_ended and threads <= 1:
            return None
        if command or has_ended or int(fields[6]) & OF_THE_KERNEL or is_last:
            return RunningProcess(pid, int(fields[2]), os.fsdecode(command.replace(b"\0", b" ")))
        time.sleep(LOOK_S)


def group_members(group: int) -> list[RunningProcess]:
    """All of one process group."""
    if not _has_proc():
        return [running for running in _ps("-A") if running.group == group]
    found = (find_process(int(path.name)) for path in PROC.iterdir() if path.name.isdigit())
    return [running for running in found if running is not None and running.group == group]


def _fields(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` from the state on; none when the process is gone, or unknown."""
    try:
        # The name of the program, in brackets, may hold anything; what follows it does not.
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _has_proc() -> bool:
    return (PROC / "self" / "stat").exists()


def _ps(*selection: str) -> Iterator[RunningProcess]:
    words = ["ps", *selection, "-ww", "-o", "pid=,pgid=,stat=,command="]
    said = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False).stdout
    for line in said.splitlines():
        pid, group, state, *command = line.split(None, 3)
        if not state.startswith("Z"):
            yield RunningProcess(int(pid), int(group), command[0] if command else "")
