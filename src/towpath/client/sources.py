"""What a sender sends: a file or standard input, and the header of a CSV file, which is not sent as data.

The length of a file is fixed when it is opened: what is written behind that later is not sent.

Standard input is kept on disk until the server has it (`Spool`): a broken connection loses nothing. Its files have no
name and go with the process, so that a client that dies leaves nothing behind, and cannot go on where it was. When so
much waits that the room is used up, whoever writes to us has to wait.
"""

from __future__ import annotations

import csv
import os
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

from towpath.errors import BadValue, SourceChanged

NEWLINE = b"\n"
MARK = b"\xef\xbb\xbf"  # of UTF-8, which some programs put before everything
GZIP_BEGINNING = b"\x1f\x8b"

READ_BYTES = 1 << 20
ROOM_BYTES = 1 << 30
SEGMENT_BYTES = 16 << 20
MOST_HEADER_BYTES = 1 << 20
LINGER_S = 0.2  # how long to wait for more, when there is something to send


class ByteSource(Protocol):
    """Bytes with a beginning and an end, of which what is acknowledged may be forgotten."""

    @property
    def size(self) -> int | None:
        """The number of bytes; None while it is unknown."""

    def read(self, offset: int, most_bytes: int, least_bytes: int = 1) -> Piece:
        """Bytes from there on; none, and not the last, when there are fewer than `least_bytes` yet."""

    def crc32(self, start: int, end: int, begun: int) -> int:
        """Of the bytes from `start` to `end`, going on from what those before `start` have."""

    def line_end(self, offset: int) -> int | None:
        """Behind the end of the line that begins there, or the end of all; None when it has not come yet."""

    def release(self, position: int) -> None:
        """All up to there is safe with the server."""

    def close(self) -> None:
        """Release files and threads."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes from a place on."""

    data: bytes
    is_last: bool  # nothing comes after it


def whole_lines(piece: Piece) -> Piece:
    """Without what stands behind the last end of a line: the server would not take it."""
    end = piece.data.rfind(NEWLINE) + 1
    if piece.is_last or not end or end == len(piece.data):
        return piece
    return Piece(piece.data[:end], False)


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
        return _crc32(self._between(start, end), begun)

    def line_end(self, offset: int) -> int:
        found = _line_end(self._between(offset, self._size), offset)
        return self._size if found is None else found

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
        """Read what is in the file now, past all buffers."""
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


class Readable(Protocol):
    """A stream that can be read as it comes."""

    def read1(self, size: int = -1, /) -> bytes:
        """The bytes that are there, at most so many; none at the end."""


class Spool:
    """Standard input, read in a thread of its own and kept until the server has it."""

    def __init__(
        self, stream: Readable, room_bytes: int = ROOM_BYTES, segment_bytes: int = SEGMENT_BYTES, beginning: bytes = b""
    ) -> None:
        self._stream = stream
        self._room_bytes = room_bytes
        self._segment_bytes = segment_bytes
        self._changed = threading.Condition()
        self._segments: deque[_Segment] = deque()
        self._end = self._released = self._line_end = 0
        self._is_over = self._is_closed = False
        self._failure: Exception | None = None
        self._take(beginning)
        threading.Thread(target=self._read_all, name="standard-input", daemon=True).start()

    @property
    def size(self) -> int | None:
        with self._changed:
            return self._end if self._is_over else None

    def read(self, offset: int, most_bytes: int, least_bytes: int = 1) -> Piece:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._end - offset >= most_bytes, LINGER_S)
            self._check()
            is_enough = self._line_end > offset and self._end - offset >= least_bytes
            if not self._is_over and not is_enough and self._end - offset < most_bytes:
                return Piece(b"", False)
            end = min(offset + most_bytes, self._end)
            return Piece(b"".join(self._between(offset, end)), self._is_over and end == self._end)

    def crc32(self, start: int, end: int, begun: int) -> int:
        with self._changed:
            return _crc32(self._between(start, end), begun)

    def line_end(self, offset: int) -> int | None:
        with self._changed:
            self._check()
            found = _line_end(self._between(offset, self._end), offset)
            if found is not None:
                return found
            if self._is_over:
                return self._end
            if self._end - self._released >= self._room_bytes:
                raise BadValue(f"a line of standard input has more than {self._room_bytes:,} bytes, and no end")
            self._changed.wait(LINGER_S)
        return None

    def release(self, position: int) -> None:
        with self._changed:
            self._released = max(self._released, position)
            while self._segments and self._segments[0].end <= self._released:
                self._segments.popleft().file.close()
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            while self._segments:
                self._segments.pop().file.close()
            self._changed.notify_all()

    # In the thread that reads

    def _read_all(self) -> None:
        try:
            while self._has_room() and (data := self._stream.read1(READ_BYTES)):
                self._take(data)
        except Exception as error:  # told to whoever reads from us
            self._failure = error
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        """Wait for room; false when the spool was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._end - self._released < self._room_bytes)
            return not self._is_closed

    def _take(self, data: bytes) -> None:
        with self._changed:
            if self._is_closed or not data:
                return
            last = self._last_segment()
            last.file.seek(last.length)
            last.file.write(data)
            last.length += len(data)
            newline = data.rfind(NEWLINE)
            self._line_end = self._end + newline + 1 if newline >= 0 else self._line_end
            self._end += len(data)
            self._changed.notify_all()

    def _last_segment(self) -> _Segment:
        if not self._segments or self._segments[-1].length >= self._segment_bytes:
            file = tempfile.TemporaryFile(prefix="towpath-send-")  # noqa: SIM115 - closed when it is released
            self._segments.append(_Segment(self._end, file))
        return self._segments[-1]

    # What is there

    def _check(self) -> None:
        if self._failure is not None:
            raise BadValue(f"standard input cannot be kept: {self._failure}") from self._failure

    def _between(self, start: int, end: int) -> Iterator[bytes]:
        if start < end and (not self._segments or start < self._segments[0].start):
            raise SourceChanged(
                "the server has lost bytes of standard input that it had acknowledged; they are gone here, too"
            )
        for segment in self._segments:
            at = max(start, segment.start)
            if at < min(end, segment.end):
                segment.file.seek(at - segment.start)
                yield segment.file.read(min(end, segment.end) - at)


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """The columns that the first line of a CSV file names, and how much of the file it takes."""

    columns: tuple[str, ...]
    bytes: int
    lines: int


def read_header(readline: Callable[[int], bytes], name: str) -> CsvHeader:
    """The header of a file that is read line by line, and no more of it."""
    used = count = 0

    def texts() -> Iterator[str]:
        nonlocal used, count
        while line := readline(MOST_HEADER_BYTES + 1):
            first, used, count = used == 0, used + len(line), count + 1
            if used > MOST_HEADER_BYTES:
                raise BadValue(f"{name} has no end of a header within {MOST_HEADER_BYTES:,} bytes; is it a CSV file?")
            yield (line.removeprefix(MARK) if first else line).decode()

    try:
        columns = next(csv.reader(texts(), strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadValue(f"the first line of {name} is no header of a CSV file: {error}") from error
    return CsvHeader(check_columns(columns, name), used, count)


def check_columns(columns: Iterable[str], name: str) -> tuple[str, ...]:
    """Names of columns, each there and only once."""
    found = tuple(columns)
    if not found or not all(found):
        raise BadValue(f"{name} has no header that names every column; say --columns a,b,c where it has none at all")
    if len(set(found)) < len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise BadValue(f"{name} has the column {twice!r} twice")
    return found


def _crc32(pieces: Iterable[bytes], begun: int) -> int:
    for data in pieces:
        begun = zlib.crc32(data, begun)
    return begun


def _line_end(pieces: Iterable[bytes], offset: int) -> int | None:
    """Behind the first end of a line in these, of which the first begins at the offset."""
    for data in pieces:
        found = data.find(NEWLINE)
        if found >= 0:
            return offset + found + 1
        offset += len(data)
    return None


def _problem(path: Path, file: IO[bytes]) -> str | None:
    if not file.seekable():
        return f"{path} can be read only once; send it from standard input: towpath send STREAM - < {path}"
    if file.read(len(GZIP_BEGINNING)) == GZIP_BEGINNING:
        return f"{path} is packed with gzip; unpack it on the way: zcat {path} | towpath send STREAM - --gzip"
    file.seek(0)
    return None


@dataclass
class _Segment:
    start: int
    file: IO[bytes]
    length: int = 0

    @property
    def end(self) -> int:
        return self.start + self.length
