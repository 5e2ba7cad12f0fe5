"""Whether a process that was spawned lives, and ending it: by its number, on the machine that it runs on.

A number alone says nothing, since it may be another process's by now. A spawned process has its launch id among its
arguments, and everything that it starts has it in its environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from towpath.db.machine import machine
from towpath.stack import processes

LAUNCH = "SPAWNED_LAUNCH"


def is_here(of_machine: str | None) -> bool:
    """Whether numbers of that machine mean the same here."""
    return of_machine == machine() != ""


def is_running(pid: int, launch_id: str) -> bool:
    """Whether the process of that launch runs here; one that has ended and is not reaped does not."""
    running = processes.find(pid)
    return running is not None and running.is_marked(launch_id)


def send_signal(pid: int, launch_id: str, which: signal.Signals, *, is_there: bool = False) -> None:
    """To the process and all that it has started; also to what it left behind when it is gone itself."""
    with suppress(ProcessLookupError, PermissionError):
        if is_there or is_running(pid, launch_id):
            os.killpg(pid, which)  # it leads its group
            return
    for each in _left_behind(pid, launch_id):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, which)


def _left_behind(group: int, launch_id: str) -> Iterator[int]:
    """Processes of a group whose leader is gone."""
    sign = f"{LAUNCH}={launch_id}".encode()
    for home in processes.PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (home / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and sign in (home / "environ").read_bytes().split(b"\0"):
                yield int(home.name)
