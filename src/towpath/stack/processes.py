"""What runs on this machine, to tell a server of ours from a stranger that has got its number."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


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
    try:
        # The name of the program stands in brackets and may hold anything, brackets too.
        state, _, group = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
        command = (PROC / str(pid) / "cmdline").read_bytes()
        threads = sum(1 for _ in (PROC / str(pid) / "task").iterdir())
    except OSError:
        return None
    if state in "ZX" and threads <= 1:
        return None
    return Running(pid, int(group), os.fsdecode(command.replace(b"\0", b" ")))


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
