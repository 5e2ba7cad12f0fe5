"""One process of a server: started for good, found again, ended whole.

The process leads a session of its own, so that neither the end of the command that started it nor Ctrl-C in its
terminal ends it. Its pid file is written by itself before it becomes the server: a starter that is killed at any moment
leaves no server that nobody knows. The number in the file counts only while that process has the server's directory on
its command line; afterwards it may belong to anybody.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from towpath.errors import ServerFailed
from towpath.stack import processes
from towpath.stack.reason import reason
from towpath.stack.server_user import ServerUser

POLL_S = 0.05
STOP_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0
PID_TIMEOUT_S = 10.0
# exec keeps the number: what the shell writes is the server's. A server whose number cannot be written is not begun.
_BECOME = 'echo $$ >"$1" && shift && exec "$@"'


class Daemon:
    """A process with a pid file and a log in the directory of its server."""

    def __init__(self, name: str, directory: Path, user: ServerUser) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._directory = directory
        self._mark = f"{directory}/"
        self._pid_file = directory / f"{name}.pid"
        self._user = user

    @property
    def pid(self) -> int | None:
        """Its number while it runs."""
        noted = self._noted()
        running = processes.find(noted) if noted else None
        return running.pid if running is not None and running.is_marked(self._mark) else None

    def start(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None) -> None:
        """Start it. The command must hold the path of something in the server's directory."""
        self._pid_file.unlink(missing_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self._user.own(self.log)
            process = subprocess.Popen(
                ["/bin/sh", "-c", _BECOME, "sh", str(self._pid_file), *command],
                cwd=cwd or self._directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=self._user.uid if self._user.switch else None,
                group=self._user.gid if self._user.switch else None,
                extra_groups=[] if self._user.switch else None,
            )
        # Somebody has to take note of its end, or it stays in the list of processes for as long as we live.
        threading.Thread(target=process.wait, name=f"{self.name}-end", daemon=True).start()
        was_begun = _wait(lambda: self._noted() == process.pid or process.poll() is not None, PID_TIMEOUT_S)
        if self._noted() != process.pid:
            self._abandon(process.pid, was_begun)

    def stop(self) -> None:
        """Ask it to end, and end by force what is left of it after a while; nothing of it runs afterwards."""
        if pid := self.pid:
            _signal(os.kill, pid, signal.SIGTERM)
            if not _wait(lambda: processes.find(pid) is None, STOP_TIMEOUT_S):
                _signal(os.killpg, pid, signal.SIGKILL)
        self.kill()

    def kill(self) -> None:
        """End it and its children at once, as a crash does."""
        group = self._noted()
        if group:
            _wait(lambda: not _is_ending(group), KILL_TIMEOUT_S)
        if group and self._is_ours(group):
            _signal(os.killpg, group, signal.SIGKILL)
            if not _wait(lambda: not processes.group_members(group), KILL_TIMEOUT_S):
                raise ServerFailed(f"{self.name} (process group {group}) does not end, not even by SIGKILL")
        self._pid_file.unlink(missing_ok=True)

    def _abandon(self, group: int, has_ended: bool) -> NoReturn:
        """End what nobody could find again."""
        _signal(os.killpg, group, signal.SIGKILL)
        _wait(lambda: not processes.group_members(group), KILL_TIMEOUT_S)
        self._pid_file.unlink(missing_ok=True)
        if has_ended:
            raise ServerFailed(f"{self.name} was not started: {reason(self.log.read_text(errors='replace'))}")
        raise ServerFailed(f"{self.name} was not started within {PID_TIMEOUT_S:g} s")

    def _noted(self) -> int | None:
        try:
            return int(self._pid_file.read_text())
        except (FileNotFoundError, IsADirectoryError, ValueError):
            return None

    def _is_ours(self, group: int) -> bool:
        # The children of a leader that has ended keep the number of the group from being given to anybody else.
        return any(running.is_marked(self._mark) for running in processes.group_members(group))


def _is_ending(pid: int) -> bool:
    """Its first thread has ended, and with it its command line; until the last one has, files and ports stay open."""
    running = processes.find(pid)
    return running is not None and not running.command


def _signal(send: Callable[[int, int], None], number: int, which: signal.Signals) -> None:
    try:
        send(number, which)
    except ProcessLookupError:
        return


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    is_late = False
    while not condition():
        if is_late:
            return False
        time.sleep(POLL_S)
        is_late = time.monotonic() > deadline  # before the last look: this process may have stood still until now
    return True
