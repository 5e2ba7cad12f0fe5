"""A file to send. Its length is fixed when it is opened: what is written behind that later is not sent."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from towpath.client.source import NEWLINE, READ_BYTES, Piece
from towpath.errors import BadValue, SourceChanged

GZIP_BEGINNING = b"\x1f\x8b"


class FileSource:
    """The bytes of a file from `begin` on (behind the header of a CSV file)."""

    def __init__(self, path: Path | str, begin: int = 0) -> None:
        self.path = Path(path)
        self._begin = begin
        self._file = open_to_send(self.path)
        self._size = os.fstat(self._file.fileno()).st_size - begin

    @property
    def size(self) -> int:
        return self._size

    def read(self, offset: int, most_bytes: int, least_bytes: int = 1) -> Piece:
        data = self._at(offset, min(most_bytes, self._size - offset))
        if not data and offset < self._size:
            raise self._shorter()
        return Piece(data, offset + len(data) >= self._size)

    def crc32(self, start: int, end: int, begun: int) -> int:
        for data in self._between(start, end):
            begun = zlib.crc32(data, begun)
        return begun

    def line_end(self, offset: int) -> int:
        at = offset
        for data in self._between(offset, self._size):
            found = data.find(NEWLINE)
            if found >= 0:
                return at + found + 1
            at += len(data)
        return self._size

    def release(self, position: int) -> None:
        pass

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def _between(self, start: int, end: int) -> Iterator[bytes]:
        if end > self._size:
            raise self._shorter()
        while start < end:
            data = self._at(start, min(READ_BYTES, end - start))
            if not data:
                raise self._shorter()
            start += len(data)
            yield data

    def _at(self, offset: int, most_bytes: int) -> bytes:
        """Past all buffers: what is in the file now."""
        return os.pread(self._file.fileno(), most_bytes, self._begin + offset)

    def _shorter(self) -> SourceChanged:
        return SourceChanged(
            f"{self.path} is shorter than what the server has of it; bring the old file back, or send this one as a "
            "new upload (--new)"
        )


def open_to_send(path: Path) -> IO[bytes]:
    """The file at its beginning, if it can be read more than once and is not packed."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed by whoever gets it
    except OSError as error:
        raise BadValue(f"cannot read {path}: {error.strerror or error}") from error
    problem = _problem(path, file)
    if problem is not None:
        file.close()
        raise BadValue(problem)
    return file


def _problem(path: Path, file: IO[bytes]) -> str | None:
    if not file.seekable():
        return f"{path} can be read only once; send it from standard input: towpath send STREAM - < {path}"
    if file.read(len(GZIP_BEGINNING)) == GZIP_BEGINNING:
        return f"{path} is packed with gzip; unpack it on the way: zcat {path} | towpath send STREAM - --gzip"
    file.seek(0)
    return None
