"""Bodies that are too large for a row: files named by the hash of their content."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from towpath.settings import Settings

_NAME = re.compile(r"[0-9a-f]{64}")
LOCK = ".lock"


def blobs_of(settings: Settings) -> Blobs:
    """Where the desk keeps large bodies."""
    return Blobs(Path(settings.desk.directory).absolute() / "bodies")


class Blobs:
    """One directory of body files.

    A file is on the disk before the row that names it is committed, and goes after the last such row has gone. Both
    happen under a lock of the directory, so that nobody sweeps up what another is about to name.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def keep(self, value: bytes) -> str:
        """The name of a file with this content, on the disk when this returns."""
        name = hashlib.sha256(value).hexdigest()
        if not self.path(name).exists():
            self._put(name, lambda aside: aside.write_bytes(value))
        return name

    def adopt(self, name: str, source: Path) -> bool:
        """Keep a copy of a file that somebody else has made under this name; false when there is none."""
        if not _NAME.fullmatch(name) or not (source / name).is_file():
            return self._is_kept(name)
        if not self._is_kept(name):
            self._put(name, lambda aside: shutil.copyfile(source / name, aside))
        return True

    def read(self, name: str) -> bytes:
        """Raises `FileNotFoundError` when it was swept up, and `OSError` when it is not what it was."""
        value = self.path(name).read_bytes()
        if hashlib.sha256(value).hexdigest() != name:
            raise OSError(f"{self.path(name)} does not hold what was put into it")
        return value

    def size(self, name: str) -> int:
        return self.path(name).stat().st_size

    def path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is not the name of a kept body")
        return self.directory / name

    @contextmanager
    def held(self) -> Iterator[None]:
        """While somebody names files and commits that, nothing is swept up."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def sweep(self, named: Callable[[Collection[str]], Collection[str]]) -> int:
        """Delete the files that no row names; `named` says which of some are."""
        if not self.directory.is_dir():
            return 0
        with self._locked(fcntl.LOCK_EX):
            there = {path.name for path in self.directory.iterdir() if _NAME.fullmatch(path.name)}
            doomed = there - set(named(there))
            for name in doomed:
                self.path(name).unlink(missing_ok=True)
            for half in self.directory.glob(".*.part"):  # of somebody who died while writing it
                half.unlink(missing_ok=True)
        return len(doomed)

    def _is_kept(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None and self.path(name).is_file()

    def _put(self, name: str, write: Callable[[Path], object]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        aside = self.directory / f".{name}.{uuid4().hex}.part"
        write(aside)
        _sync(aside)
        os.replace(aside, self.path(name))
        _sync(self.directory)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / LOCK).open("a") as file:
            fcntl.flock(file, how)
            yield  # closing the file lets go


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
