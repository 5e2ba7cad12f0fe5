"""The end of a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# Of a log that has grown for days, only its end is read.
MOST_BYTES = 4 << 20


def tail(path: Path, lines: int) -> list[str]:
    """The last lines; none when there is no such file."""
    if lines <= 0 or not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_BYTES))
        return file.read().decode(errors="replace").splitlines()[-lines:]


class Follower:
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
