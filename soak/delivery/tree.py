"""Processes and those that they have started, from /proc."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
CRUMB = ".at"  # the end of a file that a worker maps into its memory as long as it has a task in hand
TRAIL = "trail"  # the directory of files that a worker maps until it ends
# What Spark forks its Python workers from, with what flows need loaded or without it; they have its command line.
DAEMONS = (b"towpath.flow.worker.daemon", b"pyspark.daemon")


class Process(NamedTuple):
    """One that runs. A number is given to others later; with the time of its start it is unique."""

    pid: int
    started: int
    parent: int
    command: bytes


def find(pid: int) -> Process | None:
    try:
        # The name of the program stands in brackets and may hold anything.
        parts = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    return None if parts[0] in "ZX" else Process(pid, int(parts[19]), int(parts[1]), command)


def descendants(pid: int) -> list[Process]:
    """Children before their own children."""
    found = filter(None, (find(int(path.name)) for path in PROC.iterdir() if path.name.isdigit()))
    children: dict[int, list[Process]] = {}
    for each in found:
        children.setdefault(each.parent, []).append(each)
    line = sorted(children.get(pid, []))
    for each in line:  # grows meanwhile
        line += sorted(children.get(each.pid, []))
    return line


def workers(driver: int) -> list[Process]:
    """The Python workers of a driver."""
    below = descendants(driver)
    daemons = {each.pid for each in below if any(name in each.command for name in DAEMONS)}
    return [each for each in below if each.parent in daemons]


def task_of(worker: Process) -> str | None:
    """The file that tells which record a worker is at; None when it waits for a task.

    That of functions with state says nothing here: a worker keeps it from one task to the next.
    """
    try:
        lines = (PROC / str(worker.pid) / "maps").read_text().splitlines()
    except OSError:
        return None
    mapped = (Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith(CRUMB))
    return next((str(path) for path in mapped if path.parent.name != TRAIL), None)


def is_alive(process: Process) -> bool:
    now = find(process.pid)
    return now is not None and now.started == process.started


def send(processes: Iterable[Process], which: signal.Signals) -> int:
    """To those that are still there; how many they were."""
    sent = 0
    for each in processes:
        if is_alive(each):
            with suppress(ProcessLookupError):
                os.kill(each.pid, which)
                sent += 1
    return sent
