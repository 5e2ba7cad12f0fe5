"""The result of one check of a machine, and how the system's package manager installs what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from towpath.errors import NotInstalled, TowpathError

INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")
LINES_SHOWN = 5


class CheckStatus(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARNING = "warning"  # it works without, or not for long
    MISSING = "missing"  # it does not work without


class Purpose(StrEnum):
    """What the machine is to be used for, beside running the queue."""

    TEST = "test"
    DEMO = "demo"
    FLOWS = "flows"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing: how it is, what was found, what to do about it and, if that is all, the package that holds it."""

    name: str
    health: CheckStatus
    found: str
    remedy: str = ""
    package: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, CheckStatus.OK, found)


def warning(name: str, found: str, remedy: str) -> Check:
    return Check(name, CheckStatus.WARNING, found, remedy)


def missing(name: str, found: str, remedy: str) -> Check:
    return Check(name, CheckStatus.MISSING, found, remedy)


def absent(name: str, what_for: str, package: str, *, is_needed: bool) -> Check:
    """Something that a package of the system would bring."""
    health = CheckStatus.MISSING if is_needed else CheckStatus.WARNING
    return Check(name, health, f"not found; {what_for}", f"apt-get install {package}", package)


def install_command(packages: Sequence[str]) -> list[str]:
    """The command that installs packages, if we may run it; otherwise `NotInstalled` with the command to type."""
    command = [*INSTALL, *packages]
    if shutil.which(INSTALL[0]) is None:
        raise NotInstalled(", ".join(packages), f"there is no {INSTALL[0]} here; use this system's package manager")
    if os.geteuid() != 0:
        raise NotInstalled(", ".join(packages), f"type: sudo {' '.join(command)}")
    return command


def install(command: Sequence[str]) -> None:
    if _run(command).returncode == 0:
        return
    _run(["apt-get", "update"])  # a fresh container has no lists of packages
    again = _run(command)
    if again.returncode != 0:
        last = "; ".join(again.stdout.strip().splitlines()[-LINES_SHOWN:])
        raise TowpathError(f"`{' '.join(command)}` failed: {last}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
