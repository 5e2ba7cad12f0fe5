"""The home of a launch: the directory in which its keeper and everybody else find what there is to know of it.

    spec.json     what is to be started, without its environment, in which passwords may be
    lock          held by the keeper for as long as it lives, and by who puts things right after a keeper has died
    control       a pipe that the keeper reads: `stop 10.0`, `kill`. It has a reader only while the keeper lives
    begun         made right before the process is started; never is there a second process for a home that has it
    keeper.json   the keeper's number, and the process's
    ended.json    how it ended; the last that is written
    log, log.1 …  what the process wrote, the newest first

No number of a process is ever believed alone: that somebody lives is known by the lock and the pipe, which the kernel
takes from the dead. Imports the standard library only, since the keeper does.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

RESERVED_BYTES = 4096
LONGEST_REASON = 2_000
LOCK_STEP_S = 0.01


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
