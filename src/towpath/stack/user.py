"""The user that runs a server.

PostgreSQL and Elasticsearch refuse to run as root. A root shell is normal in a container, so they are then run as an
ordinary user, who must be able to reach programs and data.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.errors import NotInstalled, ServerFailed

ORDINARY_USERS = ("postgres", "nobody")


@dataclass(frozen=True)
class ServerUser:
    """The user that owns the data and runs the server; `switch` says whether it is another than the current one."""

    uid: int
    gid: int
    switch: bool

    def run(self, command: list[str | Path], timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run one program as this user and return what it said; raises only when it does not end."""
        return run_within(
            timeout_s,
            [str(part) for part in command],
            # The caller's directory may be closed to this user, and the programs need one that is not.
            cwd="/",
            **self.identity,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The options with which `subprocess` runs a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}

    def reaches(self, path: Path) -> bool:
        """Whether this user can enter or execute `path`."""
        return self.run(["test", "-x", path]).returncode == 0

    def own(self, *paths: Path) -> None:
        """Give files or directories of ours to this user."""
        if self.switch:
            for path in paths:
                os.chown(path, self.uid, self.gid)

    def reachable_directory(self, wanted: Path) -> Path:
        """The directory itself, or one in its place that this user can reach when it lies in a private one."""
        if not self.switch:
            return wanted
        wanted.parent.mkdir(parents=True, exist_ok=True)
        if self.reaches(wanted.parent):
            return wanted
        # The same wish always gives the same place, so that data are found again.
        digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]
        return shared_directory() / f"data-{digest}"


def run_within(timeout_s: float, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a server's helper to its end and return what it said; one that does not end is killed."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            **options,
        )
    except subprocess.TimeoutExpired as error:
        name = Path(command[0]).name
        raise ServerFailed(f"{name} did not end within {timeout_s:g} s; run the same command again") from error


def current_user() -> ServerUser:
    return ServerUser(os.geteuid(), os.getegid(), switch=False)


def server_user() -> ServerUser:
    """The current user, or an ordinary one when the current user is root."""
    if os.geteuid() != 0:
        return current_user()
    for name in ORDINARY_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(entry.pw_uid, entry.pw_gid, switch=True)
    raise NotInstalled("an ordinary user to run servers as", "useradd --system postgres")


def shared_directory() -> Path:
    """A directory of ours below the temporary directory that every user can enter.

    Its name can be guessed, so one that somebody else made there first is refused.
    """
    path = Path(tempfile.gettempdir()) / f"towpath-stack-{os.geteuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise NotInstalled(f"a directory of our own at {path}", f"rm -r {path}")
    # mkdir obeys the umask, which may have closed the directory.
    path.chmod(0o755)
    return path
