"""One process of a server: started for good, found again, ended whole; and what the servers on Java have in common.

The process leads a session of its own, so that neither the end of the command that started it nor Ctrl-C in its
terminal ends it. Its pid file is written by itself before it becomes the server: a starter that is killed at any moment
leaves no server that nobody knows. The number in the file counts only while that process has the server's directory on
its command line; afterwards it may belong to anybody.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from towpath.core import os_processes as processes
from towpath.errors import ServerFailed
from towpath.spark.java import Java, find_java
from towpath.stack.server import Server, explaining, reason
from towpath.stack.user import ServerUser

HOST = "127.0.0.1"
LOWEST, HIGHEST = 15_000, 32_000  # of the ports to choose from
TRIES = 100
POLL_S = 0.05
ASK_TIMEOUT_S = 5.0
PID_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0
# Options for every Java of the user's shell would double heaps, open ports and write lines into logs.
LEFT_OUT = frozenset({"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH"})
# exec keeps the number: what the shell writes is the server's. A server whose number cannot be written is not begun.
_BECOME = 'echo $$ >"$1" && shift && exec "$@"'
# A proxy of the shell is not for this machine's own servers.
_ASK = urllib.request.build_opener(urllib.request.ProxyHandler({}))


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
        noted = self._noted_pid()
        running = processes.find_process(noted) if noted else None
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
                **self._user.identity,
            )
        # Somebody has to take note of its end, or it stays in the list of processes for as long as we live.
        threading.Thread(target=process.wait, name=f"{self.name}-end", daemon=True).start()
        was_begun = _wait(lambda: self._noted_pid() == process.pid or process.poll() is not None, PID_TIMEOUT_S)
        if self._noted_pid() != process.pid:
            self._abandon(process.pid, was_begun)

    def stop(self) -> None:
        """Ask it to end, and end by force what is left of it after a while; nothing of it runs afterwards."""
        if pid := self.pid:
            _signal(os.kill, pid, signal.SIGTERM)
            if not _wait(lambda: processes.find_process(pid) is None, STOP_TIMEOUT_S):
                _signal(os.killpg, pid, signal.SIGKILL)
        self.kill()

    def kill(self) -> None:
        """End it and its children at once, as a crash does."""
        group = self._noted_pid()
        if group:
            _wait(lambda: not _is_ending(group), KILL_TIMEOUT_S)
        if group and self._is_ours(group):
            _signal(os.killpg, group, signal.SIGKILL)
            if not _wait(lambda: not processes.group_members(group), KILL_TIMEOUT_S):
                raise ServerFailed(f"{self.name} (process group {group}) does not end, not even by SIGKILL")
        self._pid_file.unlink(missing_ok=True)

    def _abandon(self, group: int, has_ended: bool) -> NoReturn:
        """End a process that could not be found again."""
        _signal(os.killpg, group, signal.SIGKILL)
        _wait(lambda: not processes.group_members(group), KILL_TIMEOUT_S)
        self._pid_file.unlink(missing_ok=True)
        if has_ended:
            raise ServerFailed(f"{self.name} was not started: {reason(self.log.read_text(errors='replace'))}")
        raise ServerFailed(f"{self.name} was not started within {PID_TIMEOUT_S:g} s")

    def _noted_pid(self) -> int | None:
        try:
            return int(self._pid_file.read_text())
        except (FileNotFoundError, IsADirectoryError, ValueError):
            return None

    def _is_ours(self, group: int) -> bool:
        # The children of a leader that has ended keep the number of the group from being given to anybody else.
        return any(running.is_marked(self._mark) for running in processes.group_members(group))


class JavaServer(Server):
    """One process on Java with one port for clients."""

    def __init__(
        self, data_dir: Path, user: ServerUser, port: int | None, settings: Mapping[str, str] | None, java_home: str
    ) -> None:
        self._user = user
        self.data_dir = user.reachable_directory(data_dir.absolute())
        self._port = port or None
        self._own_settings = dict(settings or {})
        self._java_home = java_home
        self._daemon = Daemon("server", self.data_dir, user)

    @property
    def pids(self) -> list[int]:
        pid = self._daemon.pid
        return [pid] if pid else []

    @property
    def logs(self) -> list[Path]:
        return [self._daemon.log]

    def attach(self) -> bool:
        if not self.is_running:
            return False
        path, pattern = self._port_setting()
        found = re.search(pattern, path.read_text(), re.MULTILINE)
        if found is None:
            raise ServerFailed(f"{self.name} runs, but {path} does not say on which port")
        self._port = int(found[1])
        return True

    def launch(self) -> None:
        if self.attach():
            return
        with explaining(self.name, self.data_dir):
            # What a start that was killed has left of the children of its process.
            self._daemon.kill()
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._user.own(self.data_dir)
            self._port = self._port or free_port()
            require_free(self.name, self._port)
            self._set_up()
            self._daemon.start(self._command(), self._environment(), self._working_directory())

    def stop(self) -> None:
        self._daemon.stop()

    def kill(self) -> None:
        self._daemon.kill()

    @cached_property
    def _java(self) -> Java:
        return find_java(self._java_home)

    @abstractmethod
    def _set_up(self) -> None:
        """Write what the process reads when it starts; at the first time also make empty data."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The command to run; one of its words holds the data directory."""

    @abstractmethod
    def _environment(self) -> dict[str, str]:
        """The environment variables of the process."""

    def _working_directory(self) -> Path:
        return self.data_dir

    @abstractmethod
    def _port_setting(self) -> tuple[Path, str]:
        """The file that tells the process its port, and a pattern by which the port is found there."""


def environment(java: Java, **more: str) -> dict[str, str]:
    """The variables for a server: ours, less what is meant for other programs."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return {**kept, "JAVA_HOME": str(java.home), **more}


def ask(url: str) -> dict[str, Any]:
    """The object that is answered; an empty one when there is no whole answer."""
    try:
        with _ASK.open(url, timeout=ASK_TIMEOUT_S) as answer:
            said = json.load(answer)
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    return said if isinstance(said, dict) else {}


def free_port(*but: int) -> int:
    """A port that is free now, and that stays free while its server is down for a moment; none of `but`.

    The ports that the system itself gives out (from 32768 on Linux) do not: any client of anything takes one of them
    for its end of a connection.
    """
    for _ in range(TRIES):
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port not in but and _is_free(port):
            return port
    raise ServerFailed(f"no free port was found between {LOWEST} and {HIGHEST}")


def require_free(name: str, port: int) -> None:
    """Raise `ServerFailed` when another program listens on the port that a server is to have."""
    try:
        _try(port)
    except PermissionError as error:
        raise ServerFailed(f"{name}: port {port} needs root; choose one above 1023: --port {name}=N") from error
    except OSError as error:
        raise ServerFailed(
            f"{name}: port {port} is in use by another program; choose another: --port {name}=N (0: any free one)"
        ) from error


def _is_free(port: int) -> bool:
    try:
        _try(port)
    except OSError:
        return False
    return True


def _try(port: int) -> None:
    with socket.socket() as probe:
        # Without it a port counts as used for a minute after its last connection has ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))


def _is_ending(pid: int) -> bool:
    """Its first thread has ended, and with it its command line; until the last one has, files and ports stay open."""
    running = processes.find_process(pid)
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
