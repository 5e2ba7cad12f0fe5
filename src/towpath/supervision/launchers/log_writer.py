"""Writes the output of a process into a few files of limited size. Nothing that happens to a disk raises here.

Imports the standard library only, since the keeper does.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LONGEST_LINE = 64 << 10  # by so much a file may grow too large, for the sake of a line's end
END_OF_LINE = ord("\n")


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
