"""One sender sends its data to the end, whatever breaks on the way.

`ChunkSize` says how many bytes the next chunk has: more while answers are quick, fewer when the connection breaks, a
share while many send.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from towpath.client.connection import Cut, Later
from towpath.client.protocol import ChunkAnswer, GatewayProtocol, SenderPosition, Session
from towpath.client.sources import ByteSource, Piece, whole_lines
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import GatewayRefused, SenderReplaced, SourceChanged

FIRST_BYTES = 256 << 10
LEAST_BYTES = 16 << 10
QUICK_S = 0.5
SLOW_S = 3.0
SHOWN_CHARACTERS = 1_000

GAP = "chunk_gap"
LINE_TOO_LONG = "line_too_long"
NOT_RECEIVING = "illegal_upload_move"
TOO_LARGE = frozenset({"chunk_too_large", "too_large"})  # the second: of whoever stands before the gateway

BEGINNING = SenderPosition(position=0, line=0, sequence=0, refused=0, crc32=0)


@dataclass(frozen=True, slots=True)
class Sent:
    """How far a sender is."""

    sender: str
    place: SenderPosition
    skipped: tuple[int, ...] = ()  # numbers of lines that were too long for the server, and are cases now
    is_finished: bool = False


OnSent = Callable[[Sent, int | None], None]  # how far, and of how many bytes if that is known


def watch_nothing(sent: Sent, size: int | None) -> None:
    """The default for `on_sent`."""


class SendRun:
    """A sender at work. `run` is called once, by the thread that owns the wire."""

    def __init__(
        self,
        wire: GatewayProtocol,
        upload: str,
        sender: str,
        source: ByteSource,
        *,
        zip: bool = False,
        on_sent: OnSent = watch_nothing,
    ) -> None:
        self._wire = wire
        self._upload = upload
        self._sender = sender
        self._source = source
        self._zip = zip
        self._on_sent = on_sent
        self._skipped: list[int] = []
        self._least_bytes = 1
        self._place = BEGINNING

    def run(self) -> Sent:
        self._begin()
        while not self._is_all_sent():
            self._step()
        return self._finish()

    # Beginning and end

    def _begin(self) -> None:
        self._session: Session = self._wire.session(self._upload, self._sender)
        self._size = ChunkSize(self._session.chunk_bytes)
        self._sequence = self._session.place.sequence + 1
        self._go_on_from(self._session.place)

    def _go_on_from(self, place: SenderPosition) -> None:
        """With a file that begins as the server has it, or not at all."""
        known = self._place if place.position >= self._place.position else BEGINNING
        if self._source.crc32(known.position, place.position, known.crc32) != place.crc32:
            raise SourceChanged(
                f"{self._sender}: the first {place.position:,} bytes are not those that the server has; the file was "
                "changed since. Bring the old one back, or send this one as a new upload (--new)"
            )
        self._place = place
        self._source.release(place.position)
        self._tell()

    def _is_all_sent(self) -> bool:
        return self._session.is_finished or self._place.position == self._source.size

    def _finish(self) -> Sent:
        size = self._source.size
        if self._session.is_finished and self._place.position != size:
            raise SourceChanged(
                f"{self._sender}: the server has {self._place.position:,} bytes, which was all, and here are {size:,}; "
                "the file was changed since. Send it as a new upload (--new)"
            )
        if not self._session.is_finished:
            place = self._place
            self._wire.finish(
                self._upload, self._sender, session=self._session.number, size=place.position, crc32=place.crc32
            )
            crash.here(CrashPoint.CLIENT_FINISHED)
        return self._tell(is_finished=True)

    # Chunks

    def _step(self) -> None:
        self._wire.retries.check()
        piece = self._source.read(self._place.position, self._size.bytes, self._least_bytes)
        if piece.data:
            self._try(whole_lines(piece) if self._least_bytes == 1 else piece)

    def _try(self, piece: Piece) -> None:
        begun = time.monotonic()
        try:
            taken = self._ask(piece)
        except Cut as error:
            self._size.halve()
            self._wire.retries.wait(str(error))
        except Later as error:
            self._wire.retries.wait(str(error), error.at_least_s)
        except GatewayRefused as error:
            self._refused(error)
        else:
            self._sequence = taken.place.sequence + 1
            self._acknowledged(piece, taken, time.monotonic() - begun)

    def _ask(self, piece: Piece) -> ChunkAnswer:
        return self._wire.chunk(
            self._upload,
            self._sender,
            session=self._session.number,
            offset=self._place.position,
            sequence=self._sequence,
            data=piece.data,
            last=piece.is_last,
            zip=self._zip,
        )

    def _acknowledged(self, piece: Piece, taken: ChunkAnswer, took_s: float) -> None:
        place, taken_bytes = taken.place, taken.place.position - self._place.position
        if taken_bytes == 0:
            self._not_a_line(piece)
            return
        self._size.answered(len(piece.data), took_s, taken.next_bytes)
        if 0 < taken_bytes <= len(piece.data):
            self._move_to(place, zlib.crc32(piece.data[:taken_bytes], self._place.crc32))
        else:  # it knew more than its answers said
            self._go_on_from(place)

    def _not_a_line(self, piece: Piece) -> None:
        """No line ends in it, by the rules of the format (quotes may hold ends of lines); a longer one is needed."""
        if piece.is_last or len(piece.data) >= self._size.most_bytes:
            said = f"nothing was taken of a chunk of {len(piece.data):,} bytes at {self._place.position:,}"
            raise GatewayRefused(200, "", f"{said}, and no line is too long; this is a fault of the gateway")
        self._size.held_no_line()
        self._least_bytes = len(piece.data) + 1

    def _move_to(self, place: SenderPosition, crc32: int) -> None:
        if crc32 != place.crc32:
            raise SourceChanged(
                f"{self._sender}: what the server has up to byte {place.position:,} is not what was sent; was the file "
                "changed while it was read?"
            )
        self._place = place
        self._least_bytes = 1
        crash.here(CrashPoint.CLIENT_CHUNK_ACKNOWLEDGED)
        self._source.release(place.position)
        self._tell()

    # What the server does not take

    def _refused(self, error: GatewayRefused) -> None:
        if error.code == GAP:
            self._go_on_from(self._wire.status(self._upload).sender(self._sender).place)
        elif error.code == LINE_TOO_LONG:
            self._skip(int(error.details.get("position", self._place.position)))
        elif error.code in TOO_LARGE and self._size.bytes > 1:
            self._size.lower_to(int(error.details.get("chunk_bytes", self._size.bytes // 2)))
        elif error.code == NOT_RECEIVING and self._wire.status(self._upload).sender(self._sender).is_finished:
            raise SenderReplaced(f"{self._sender}: another client has sent the rest of it, and finished") from error
        else:
            raise error

    def _skip(self, position: int) -> None:
        """Make a case of the line: it is reported at the end, and nothing of it is lost without a trace."""
        if position != self._place.position:  # lines before it were taken
            self._go_on_from(self._wire.status(self._upload).sender(self._sender).place)
        end = self._line_end()
        text = self._source.read(position, SHOWN_CHARACTERS * 4).data.decode(errors="backslashreplace")
        crc32 = self._source.crc32(position, end, self._place.crc32)
        place = self._wire.skip(
            self._upload,
            self._sender,
            session=self._session.number,
            sequence=self._sequence,
            offset=position,
            bytes=end - position,
            crc32=crc32,
            beginning=text[:SHOWN_CHARACTERS],
            why=f"the line has {end - position:,} bytes",
        )
        self._sequence = place.sequence + 1
        self._skipped.append(place.line)
        self._move_to(place, crc32)

    def _line_end(self) -> int:
        while (end := self._source.line_end(self._place.position)) is None:
            self._wire.retries.check()
        return end

    def _tell(self, is_finished: bool = False) -> Sent:
        sent = Sent(self._sender, self._place, tuple(self._skipped), is_finished)
        self._on_sent(sent, self._source.size)
        return sent


class ChunkSize:
    """Doubled after a quick answer, halved after a slow one or none, up to what the server takes.

    While many send, answers are slow for all of them, whatever the size. Then the server says what is everybody's
    share, and each comes to it by doubling: who went by the time would stay with the size they had before the crowd.
    """

    def __init__(self, most_bytes: int, first_bytes: int = FIRST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = min(first_bytes, most_bytes)
        self._line_bytes = 0  # a chunk has to hold a line

    def answered(self, sent_bytes: int, took_s: float, share_bytes: int | None = None) -> None:
        """A short chunk says nothing about longer ones."""
        if share_bytes is not None and share_bytes < self.most_bytes:
            self.bytes = min(self.bytes * 2, max(share_bytes, self._line_bytes), self.most_bytes)
        elif took_s < QUICK_S and sent_bytes * 2 >= self.bytes:
            self.bytes = min(self.bytes * 2, self.most_bytes)
        elif took_s > SLOW_S:
            self.halve()

    def held_no_line(self) -> None:
        """The next one is larger, and so are those after it, whatever the share."""
        self.bytes = self._line_bytes = min(self.bytes * 2, self.most_bytes)

    def halve(self) -> None:
        self.bytes = min(max(self.bytes // 2, LEAST_BYTES), self.most_bytes)

    def lower_to(self, most_bytes: int) -> None:
        """The server takes smaller chunks than it had said."""
        self.most_bytes = min(self.most_bytes, most_bytes)
        self.bytes = min(self.bytes, self.most_bytes)
