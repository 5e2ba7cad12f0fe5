"""Whether a process of this machine is gone: asked of the kernel, which knows it at once and for certain.

A lease that ran out says only that somebody has not been heard of. On the same machine there is no need to wait for
that. Where the kernel cannot be asked (no `/proc`), nothing is known, and leases alone decide.
"""

from __future__ import annotations

import os
import socket
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
