"""A PostgreSQL server of our own, on the loopback interface, in a directory of its own."""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from types import TracebackType
from typing import Literal, Self

from towpath.errors import ServerFailed
from towpath.stack.postgres_programs import (
    ServerUser,
    server_programs,
    server_user,
    shared_directory,
)

StopMode = Literal["smart", "fast", "immediate"]

SUPERUSER = "towpath"
LOG_NAME = "server.log"
LOG_LINES_SHOWN = 15
START_TIMEOUT_S = 60
# The kernel's limit for the path of a Unix socket, with room for PostgreSQL's file name.
SOCKET_DIRECTORY_LIMIT = 107 - len("/.s.PGSQL.65535.lock")


class PostgresServer:
    """Starts, stops and crashes one PostgreSQL server.

    It listens on 127.0.0.1 only and trusts whoever connects there, which is right for a
    demo, a test or a benchmark and for nothing else. Use it as a context manager, or call
    `start` and `stop`; both may be called again. As root the server runs as an ordinary
    user; when that user cannot reach `data_dir`, the data live below the temporary
    directory instead and `data_dir` says where.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._user = server_user()
        self._programs = server_programs(self._user)
        self.data_dir = _reachable_directory(data_dir.absolute(), self._user)
        self._port = port
        self._settings = dict(settings or {})

    @property
    def port(self) -> int:
        """The port that the server listens on; chosen at the first start when none was given."""
        if self._port is None:
            raise ServerFailed("PostgreSQL has not been started, so it has no port yet")
        return self._port

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres"

    @property
    def is_running(self) -> bool:
        """Whether a server runs on the data directory."""
        return self._ctl("status").returncode == 0

    def start(self) -> None:
        """Start the server and wait until it answers; a running one is left as it is."""
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise()
        self._remove_stale_pid_file()
        if self.is_running:
            self._port = self._port_of_running()
            return
        self._port = self._port or _free_port()
        log = self.data_dir / LOG_NAME
        options = shlex.join(self._options())
        done = self._ctl("start", "-w", "-t", str(START_TIMEOUT_S), "-l", str(log), "-o", options)
        if done.returncode != 0:
            raise ServerFailed(f"PostgreSQL did not start: {done.stdout.strip()}\n{self.log_tail()}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; one that does not run is no error."""
        if not self.is_running:
            return
        done = self._ctl("stop", "-w", "-m", mode)
        if done.returncode != 0 and self.is_running:
            raise ServerFailed(f"PostgreSQL did not stop: {done.stdout.strip()}\n{self.log_tail()}")

    def restart(self) -> None:
        """Stop and start again on the same port with the same data."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Stop without a checkpoint or goodbye, as a crash does; the next start recovers."""
        self.stop("immediate")

    def log_tail(self) -> str:
        """The last lines of the server's log."""
        log = self.data_dir / LOG_NAME
        if not log.exists():
            return "(no log was written)"
        return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _ctl(self, action: str, *arguments: str) -> CompletedProcess[str]:
        return self._user.run([self._programs / "pg_ctl", "-D", self.data_dir, *arguments, action])

    def _initialise(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._user.switch:
            os.chown(self.data_dir, self._user.uid, self._user.gid)
        initdb: list[str | Path] = [self._programs / "initdb", "-D", self.data_dir]
        options = ["--auth=trust", f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C"]
        done = self._user.run([*initdb, *options])
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed in {self.data_dir}:\n{done.stdout.strip()}")

    def _options(self) -> list[str]:
        sockets = str(self.data_dir)
        fixed = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            # TCP is what clients use; the socket is only for people with psql.
            "unix_socket_directories": sockets if len(sockets) <= SOCKET_DIRECTORY_LIMIT else "",
        }
        values = {**self._settings, **fixed}
        return [part for name, value in values.items() for part in ("-c", f"{name}={value}")]

    def _remove_stale_pid_file(self) -> None:
        # PostgreSQL takes any living process with the noted number for the old server. After
        # a crash of the machine or the container that number may be somebody else's.
        pid_file = self.data_dir / "postmaster.pid"
        if not pid_file.exists() or not Path("/proc/self").exists():
            return
        command_line = Path("/proc") / pid_file.read_text().split("\n", 1)[0].strip() / "cmdline"
        try:
            is_ours = os.fsencode(self.data_dir) in command_line.read_bytes().split(b"\0")
        except OSError:
            is_ours = False
        if not is_ours:
            pid_file.unlink(missing_ok=True)

    def _port_of_running(self) -> int:
        # The fourth line of the file is the port, as PostgreSQL documents it.
        return int((self.data_dir / "postmaster.pid").read_text().split("\n")[3])


def _reachable_directory(wanted: Path, user: ServerUser) -> Path:
    if not user.switch:
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    if user.reaches(wanted.parent):
        return wanted
    # The same wish always gives the same place, so that data are found again.
    digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]
    return shared_directory() / f"data-{digest}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
