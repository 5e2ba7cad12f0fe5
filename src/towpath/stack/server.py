"""What every local server can do, why one did not start, and the logs of servers."""

from __future__ import annotations

import errno
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, NoReturn, Self

from towpath.errors import ServerFailed
from towpath.spark.artifacts import Report

SettingsSections = dict[str, dict[str, str]]
POLL_S = 0.1
LOG_LINES_SHOWN = 15
LOG_LINES_SEARCHED = 200
LINES_SHOWN = 4  # of the reason why a server did not start
LINE_LENGTH = 300
# Of a log that has grown for days, only its end is read.
MOST_BYTES = 4 << 20
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_TELLING = re.compile(r"FATAL|ERROR|PANIC|[Ee]xception|[Ee]rror:|Address already in use|OutOfMemory|not permitted")
# News of other kinds, and the places of a Java trace.
_HARMLESS = re.compile(r"\bINFO\b|\bDEBUG\b|^at ")


class Server(ABC):
    """Starts, stops and crashes one server on the loopback interface.

    It trusts whoever connects there, which is right for trying things out, a test or a benchmark and for nothing else.
    Use it as a context manager, or call `start` and `stop`; both may be called again, also from another process on the
    same directory.
    """

    name: ClassVar[str]
    start_timeout_s: ClassVar[float] = 90.0
    data_dir: Path
    _port: int | None

    @property
    def port(self) -> int:
        """The port that the server listens on; chosen at the first start when none was given."""
        if self._port is None:
            raise ServerFailed(f"{self.name} has not been started, so it has no port yet")
        return self._port

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for clients."""

    @property
    @abstractmethod
    def settings(self) -> SettingsSections:
        """What to put into `towpath.toml` to use it."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Which version of the server this is."""

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """The numbers of its processes that run."""

    @property
    @abstractmethod
    def logs(self) -> list[Path]:
        """The files that its processes write their logs to."""

    @property
    def is_running(self) -> bool:
        """Whether its process runs; it may not answer yet."""
        return bool(self.pids)

    @abstractmethod
    def attach(self) -> bool:
        """Learn the port of the server that runs on the directory; False when none does."""

    @abstractmethod
    def is_healthy(self) -> bool:
        """Whether it answers."""

    def prepare(self, report: Report | None = None) -> None:
        """Fetch and unpack what the start needs; nothing when it is there."""

    @abstractmethod
    def launch(self) -> None:
        """Start it without waiting until it answers; a running one is left as it is."""

    def await_ready(self, tick: Callable[[], None] | None = None) -> None:
        """Wait until it answers; `tick` is called many times a second meanwhile."""
        deadline = time.monotonic() + self.start_timeout_s
        missed = 0
        is_late = False
        while not self.is_healthy():
            # Seen twice: in the moment in which one program becomes another it seems to be neither.
            missed = 0 if self.is_running else missed + 1
            if missed > 1:
                self._give_up("ended while it was starting")
            if is_late:
                self._give_up(f"did not answer within {self.start_timeout_s:g} s")
            if tick is not None:
                tick()
            time.sleep(POLL_S)
            is_late = time.monotonic() > deadline  # before the last look: this process may have stood still until now

    def _give_up(self, what_happened: str) -> NoReturn:
        why, log = reason(self.log_tail(LOG_LINES_SEARCHED)), self.logs[0]
        self.kill()
        raise ServerFailed(f"{self.name} {what_happened} (its log: {log}):\n{why}")

    def start(self) -> None:
        """Start the server and wait until it answers; a running one is left as it is."""
        self.prepare()
        self.launch()
        self.await_ready()

    @abstractmethod
    def stop(self) -> None:
        """Stop the server; one that does not run is no error."""

    @abstractmethod
    def kill(self) -> None:
        """End it without a goodbye, as a crash does; the next start recovers."""

    def restart(self) -> None:
        """Stop and start again on the same port with the same data."""
        self.stop()
        self.start()

    def log_tail(self, lines: int = LOG_LINES_SHOWN) -> str:
        """The last lines of the server's log."""
        found = next(filter(None, (tail(log, lines) for log in self.logs)), None)
        return "\n".join(found) if found else "(no log was written)"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextmanager
def explaining(name: str, directory: Path) -> Iterator[None]:
    """Turn refusals of the file system into a `ServerFailed` with a text for people."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ServerFailed(f"{name}: the disk of {directory} is full; make room, then start it again") from error
        raise ServerFailed(f"{name}: {error.strerror}: {error.filename or directory}") from error


def reason(written: str) -> str:
    """The few lines of a long text that say what is wrong; its last ones when none seems to."""
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    if any(map(_FULL.search, lines)):
        return "the disk is full; make room, then start it again"
    telling = [line for line in lines if _TELLING.search(line) and not _HARMLESS.search(line)]
    shown = telling[:LINES_SHOWN] or lines[-LINES_SHOWN:]
    return "\n".join(line[:LINE_LENGTH] for line in shown) or "it wrote nothing"


def tail(path: Path, lines: int) -> list[str]:
    """The last lines; none when there is no such file."""
    if lines <= 0 or not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_BYTES))
        return file.read().decode(errors="replace").splitlines()[-lines:]


class LogFollower:
    """Gives the lines that are added to a log, also after the server was started anew with a new file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._offset = self._identity()
        self._rest = b""

    def new_lines(self) -> Iterator[str]:
        inode, size = self._identity()
        if inode != self._inode or size < self._offset:
            self._inode, self._offset, self._rest = inode, 0, b""
        if size == self._offset:
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        self._offset += len(added)
        *whole, self._rest = (self._rest + added).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)

    def _identity(self) -> tuple[int, int]:
        try:
            info = self._path.stat()
        except FileNotFoundError:
            return 0, 0
        return info.st_ino, info.st_size
