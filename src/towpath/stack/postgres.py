"""A PostgreSQL server of our own, on the loopback interface, in a directory of its own."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Literal

from towpath.errors import ServerFailed
from towpath.stack import processes
from towpath.stack.ports import HOST, free_port, require_free
from towpath.stack.postgres_programs import server_programs
from towpath.stack.reason import reason
from towpath.stack.server import Server, SettingsSections, explaining
from towpath.stack.server_user import server_user

StopMode = Literal["smart", "fast", "immediate"]

SUPERUSER = "towpath"
LOG_NAME = "server.log"
FIRST_WAIT_S = 60  # after that its pid file says whether it runs
# The kernel's limit for the path of a Unix socket, with room for PostgreSQL's file name.
SOCKET_DIRECTORY_LIMIT = 107 - len("/.s.PGSQL.65535.lock")


class PostgresServer(Server):
    """Starts, stops and crashes one PostgreSQL server on 127.0.0.1.

    As root the server runs as an ordinary user; when that user cannot reach `data_dir`, the data live below the
    temporary directory instead and `data_dir` says where.
    """

    name = "postgres"
    # After a crash it recovers before it answers, which can take long. If it were killed meanwhile, the next start
    # would have to begin the recovery anew.
    start_timeout_s = math.inf

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._user = server_user()
        self._programs = server_programs(self._user)
        self.data_dir = self._user.reachable_directory(data_dir.absolute())
        self._port = port or None
        self._own_settings = dict(settings or {})

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@{HOST}:{self.port}/postgres"

    @property
    def settings(self) -> SettingsSections:
        return {"database": {"url": self.url}}

    @property
    def version(self) -> str:
        said = self._user.run([self._programs / "postgres", "--version"]).stdout.split()
        return said[2] if len(said) > 2 else "unknown"

    @property
    def pids(self) -> list[int]:
        try:
            running = processes.find(int(self._pid_lines()[0]))
        except (FileNotFoundError, ValueError):
            return []
        return [running.pid] if running is not None and running.is_marked(f"-D {self.data_dir} ") else []

    @property
    def logs(self) -> list[Path]:
        return [self.data_dir / LOG_NAME]

    def attach(self) -> bool:
        if not self.is_running:
            return False
        # The fourth line of the file is the port, as PostgreSQL documents it.
        self._port = int(self._pid_lines()[3])
        return True

    def is_healthy(self) -> bool:
        """PostgreSQL notes in its pid file when it lets clients in."""
        try:
            return self.is_running and self._pid_lines()[7].strip() == "ready"
        except IndexError:
            return False

    def launch(self) -> None:
        with explaining(self.name, self.data_dir):
            if not (self.data_dir / "PG_VERSION").exists():
                self._initialise()
            self._remove_stale_pid_file()
            if self.attach():
                return
            self._port = self._port or free_port()
            require_free(self.name, self._port)
            options = shlex.join(self._options())
            done = self._ctl("start", "-w", "-t", str(FIRST_WAIT_S), "-l", str(self.logs[0]), "-o", options)
        if done.returncode != 0 and not self.is_running:
            raise ServerFailed(f"PostgreSQL did not start (its log: {self.logs[0]}):\n{reason(self.log_tail())}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; one that does not run is no error."""
        if not self.is_running:
            return
        done = self._ctl("stop", "-w", "-m", mode)
        if done.returncode != 0 and self.is_running:
            raise ServerFailed(f"PostgreSQL did not stop: {done.stdout.strip()}\n{self.log_tail()}")

    def kill(self) -> None:
        """Stop without a checkpoint or goodbye, as a crash does; the next start recovers."""
        self.stop("immediate")

    def _ctl(self, action: str, *arguments: str) -> CompletedProcess[str]:
        return self._user.run([self._programs / "pg_ctl", "-D", self.data_dir, *arguments, action])

    def _initialise(self) -> None:
        """Make an empty cluster aside and move it to its place, so that what is there is complete."""
        aside = self.data_dir.with_name(f".{self.data_dir.name}.initialising")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700, parents=True)
        self._user.own(aside)
        initdb: list[str | Path] = [self._programs / "initdb", "-D", aside]
        options = ["--auth=trust", f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C"]
        done = self._user.run([*initdb, *options])
        if done.returncode != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise ServerFailed(f"initdb failed for {self.data_dir}:\n{reason(done.stdout)}")
        aside.rename(self.data_dir)

    def _options(self) -> list[str]:
        sockets = str(self.data_dir)
        fixed = {
            "listen_addresses": HOST,
            "port": str(self.port),
            # TCP is what clients use; the socket is only for people with psql.
            "unix_socket_directories": sockets if len(sockets) <= SOCKET_DIRECTORY_LIMIT else "",
        }
        values = {**self._own_settings, **fixed}
        return [part for name, value in values.items() for part in ("-c", f"{name}={value}")]

    def _remove_stale_pid_file(self) -> None:
        # PostgreSQL takes any living process with the noted number for the old server. After
        # a crash of the machine or the container that number may be somebody else's.
        if not self.is_running:
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)

    def _pid_lines(self) -> list[str]:
        return (self.data_dir / "postmaster.pid").read_text().split("\n")
