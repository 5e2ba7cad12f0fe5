"""The home of a launch: the directory in which its keeper and everybody else find what there is to know of it.

    spec.json     what is to be started, without its environment, in which passwords may be
    lock          held by the keeper for as long as it lives, and by who puts things right after a keeper has died
    control       a pipe that the keeper reads: `stop 10.0`, `kill`. It has a reader only while the keeper lives
    begun         made right before the process is started; never is there a second process for a home that has it
    keeper.json   the keeper's number, and the process's
    ended.json    how it ended; the last that is written
    log, log.1 …  what the process wrote, the newest first

No number of a process is ever believed alone: that somebody lives is known by the lock and the pipe, which the kernel
takes from the dead. Also here: `LogWriter`, which writes `log`, and the limits of a process as the kernel takes them.

Imports the standard library only, since the keeper does.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

RESERVED_BYTES = 4096
LONGEST_REASON = 2_000
LOCK_STEP_S = 0.01
LONGEST_LINE = 64 << 10  # by so much a file may grow too large, for the sake of a line's end
END_OF_LINE = ord("\n")
MB = 1 << 20
CPU_GRACE_S = 5  # between the signal that can be caught and the one that cannot
# Of memory: what it has taken, not what it has only put its name on, of which a Java takes gigabytes.
_KINDS = {
    "memory_mb": (resource.RLIMIT_DATA, MB, 0),
    "cpu_s": (resource.RLIMIT_CPU, 1, CPU_GRACE_S),
    "open_files": (resource.RLIMIT_NOFILE, 1, 0),
    "processes": (resource.RLIMIT_NPROC, 1, 0),
}


class LaunchHome:
    """One launch's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = path / "spec.json"
        self.log = path / "log"
        self.errors = path / "keeper.err"
        self._lock = path / "lock"
        self._control = path / "control"
        self._begun = path / "begun"
        self._keeper = path / "keeper.json"
        self._reserve = path / "ended.reserve"
        self._ended = path / "ended.json"

    # Asked by everybody

    @property
    def exists(self) -> bool:
        return self.path.is_dir()

    @property
    def told(self) -> dict[str, Any] | None:
        """What is to be started; None: nobody has come so far as to say it."""
        return _read(self.spec)

    @property
    def has_begun(self) -> bool:
        return self._begun.exists()

    @property
    def keeper(self) -> dict[str, Any] | None:
        """The numbers of keeper and process, with the time of their birth."""
        return _read(self._keeper)

    @property
    def end(self) -> dict[str, Any] | None:
        """How it ended; None: it has not, or nobody has written it down yet."""
        return _read(self._ended)

    def tell(self, command: str) -> bool:
        """Tell the keeper, if there is one; whether there is."""
        try:
            pipe = os.open(self._control, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # no pipe yet, or nobody reads it
            return False
        try:
            if command:
                os.write(pipe, f"{command}\n".encode())
        except (BrokenPipeError, BlockingIOError):  # gone since, or it has more to read than a pipe can hold
            return self.tell("")
        finally:
            os.close(pipe)
        return True

    @property
    def is_kept(self) -> bool:
        """Whether a keeper is there. One that is about to be may not show yet: the lock says that."""
        return self.tell("")

    @contextmanager
    def locked(self, timeout_s: float = 0.0) -> Iterator[bool]:
        """Hold the lock; whether we got it."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _lock(lock, timeout_s)
        finally:
            os.close(lock)

    # Written by who holds the lock

    def open_control(self) -> int:
        """From now on there is a keeper."""
        with suppress(FileExistsError):
            os.mkfifo(self._control, 0o600)
        # To be its own writer spares the reader an end of file whenever somebody else has said something.
        return os.open(self._control, os.O_RDWR | os.O_NONBLOCK)

    def reserve_end(self) -> None:
        """Take the room for what is written at the end, so that a full disk cannot keep it from being known."""
        _write(self._reserve, b" " * RESERVED_BYTES)

    def begin(self) -> None:
        """Right before the process is started."""
        _write(self._begun, b"")

    def write_keeper(self, told: Mapping[str, Any]) -> None:
        write_whole(self._keeper, told)

    def write_end(self, told: Mapping[str, Any]) -> None:
        """Into the room that was reserved, if there is any."""
        if not self._reserve.exists():
            self.reserve_end()
        text = json.dumps(told).encode()
        with self._reserve.open("r+b") as file:
            file.write(text.ljust(RESERVED_BYTES))
        self._reserve.replace(self._ended)


def write_whole(path: Path, told: Mapping[str, Any]) -> None:
    """Who reads it finds all of it or nothing."""
    beside = path.with_name(f"{path.name}.{uuid4().hex}")
    _write(beside, json.dumps(told).encode())
    beside.replace(path)


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):  # a power cut may leave a file without what was written into it
        return None
    return told


def _lock(lock: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOCK_STEP_S)
        else:
            return True


class LogWriter:
    """`log` is written to; when it is full it becomes `log.1`, that one `log.2`, and the oldest is deleted."""

    def __init__(self, path: Path, file_bytes: int, files: int) -> None:
        self._paths = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, files))]
        self._file_bytes = file_bytes
        self._file: int | None = None
        self._size = 0
        self._is_amid_line = False
        self._lost = 0
        self._why = ""

    def write(self, data: bytes) -> None:
        """Write it down. What cannot be is counted, and told of in the log as soon as that is possible again."""
        left = memoryview(data)
        try:
            self._tell_lost()
            while left:
                left = left[self._write_some(left) :]
        except OSError as error:
            self._lost += len(left)
            self._why = error.strerror or str(error)
            self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _tell_lost(self) -> None:
        if self._lost:
            note = f"\n... {self._lost} bytes of output are lost: {self._why}\n".encode()
            while note:
                note = note[self._write_some(memoryview(note)) :]
            self._lost = 0

    def _write_some(self, data: memoryview) -> int:
        if self._file is None:
            self._file = os.open(self._paths[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._size = os.fstat(self._file).st_size
        count = self._cut(data, max(0, self._file_bytes - self._size))
        if count == 0:
            self._rotate()
            return 0
        written = os.write(self._file, data[:count])
        self._size += written
        self._is_amid_line = data[written - 1] != END_OF_LINE
        return written

    def _cut(self, data: memoryview, room: int) -> int:
        """How much goes into this file; nothing: it is full. Of a line in two files neither half can be read."""
        if len(data) <= room:
            return len(data)
        if count := bytes(data[:room]).rfind(b"\n") + 1:
            return count
        if self._is_amid_line or self._size == 0:
            return bytes(data[: room + LONGEST_LINE]).find(b"\n") + 1 or room
        return 0

    def _rotate(self) -> None:
        self.close()
        for newer, older in reversed(list(zip(self._paths, self._paths[1:], strict=False))):
            with suppress(FileNotFoundError):
                newer.replace(older)
        self._paths[0].unlink(missing_ok=True)  # with one file only it has no place to go


def kernel_limits(limits: Mapping[str, int | None]) -> list[tuple[int, tuple[int, int]]]:
    """Limits of a process, as the kernel takes them. Raises `ValueError` for what this user may not have."""
    found = []
    for name, value in limits.items():
        if value is None:
            continue
        kind, unit, more = _KINDS[name]
        soft, highest = value * unit, resource.getrlimit(kind)[1]
        if highest != resource.RLIM_INFINITY and soft > highest and os.geteuid() != 0:
            raise ValueError(f"limit {name} = {value} is more than this user may have: {highest // unit}")
        hard = soft + more
        if highest != resource.RLIM_INFINITY and os.geteuid() != 0:
            hard = min(hard, highest)
        found.append((kind, (soft, hard)))
    return found
