"""Standard input, kept on disk until the server has it: a broken connection loses nothing.

The files have no name and go with the process, so that a client that dies leaves nothing behind, and cannot go on
where it was. When so much waits that the room is used up, whoever writes to us has to wait.
"""

from __future__ import annotations

import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Protocol

from towpath.client.source import NEWLINE, READ_BYTES, Piece
from towpath.errors import BadValue, SourceChanged

ROOM_BYTES = 1 << 30
SEGMENT_BYTES = 16 << 20
LINGER_S = 0.2  # how long to wait for more, when there is something to send


class Readable(Protocol):
    """What can be read as it comes."""

    def read1(self, size: int = -1, /) -> bytes:
        """What there is, at most so much; nothing at the end."""


@dataclass
class _Segment:
    start: int
    file: IO[bytes]
    length: int = 0

    @property
    def end(self) -> int:
        return self.start + self.length


class Spool:
    """Reads in a thread of its own."""

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
            for data in self._between(start, end):
                begun = zlib.crc32(data, begun)
        return begun

    def line_end(self, offset: int) -> int | None:
        with self._changed:
            self._check()
            at = offset
            for data in self._between(offset, self._end):
                found = data.find(NEWLINE)
                if found >= 0:
                    return at + found + 1
                at += len(data)
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
        """Waits for it; false when nobody wants more."""
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
