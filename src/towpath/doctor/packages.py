"""Installing what is missing with the system's package manager."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from towpath.errors import NotInstalled, TowpathError

INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")
LINES_SHOWN = 5


def install_command(packages: Sequence[str]) -> list[str]:
    """What installs them, if we may run it; otherwise `NotInstalled` with the command to type."""
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
