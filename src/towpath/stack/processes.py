"""What runs on this machine, to tell a server of ours from a stranger that has got its number."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
OF_THE_KERNEL = 0x00200000  # PF_KTHREAD
BECOMING_S = 0.5
LOOK_S = 0.001


@dataclass(frozen=True, slots=True)
class Running:
    """One process that runs; those that have ended and wait for their parent to notice do not count.

    A killed process whose first thread has ended runs as long as another has not: its files and ports stay open.
    """

    pid: int
    group: int
    command: str

    def is_marked(self, mark: str) -> bool:
        return mark in self.command


def find(pid: int) -> Running | None:
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
            return Running(pid, int(fields[2]), os.fsdecode(command.replace(b"\0", b" ")))
        time.sleep(LOOK_S)


def group_members(group: int) -> list[Running]:
    """All of one process group."""
    if not _has_proc():
        return [running for running in _ps("-A") if running.group == group]
    found = (find(int(path.name)) for path in PROC.iterdir() if path.name.isdigit())
    return [running for running in found if running is not None and running.group == group]


def _has_proc() -> bool:
    return (PROC / "self" / "stat").exists()


def _ps(*selection: str) -> Iterator[Running]:
    words = ["ps", *selection, "-ww", "-o", "pid=,pgid=,stat=,command="]
    said = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False).stdout
    for line in said.splitlines():
        pid, group, state, *command = line.split(None, 3)
        if not state.startswith("Z"):
            yield Running(int(pid), int(group), command[0] if command else "")
