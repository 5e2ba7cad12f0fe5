"""What a sender sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

NEWLINE = b"\n"
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes from a place on."""

    data: bytes
    is_last: bool  # nothing comes after it


class Source(Protocol):
    """Bytes with a beginning and an end, of which what is acknowledged may be forgotten."""

    @property
    def size(self) -> int | None:
        """How many they are; None while nobody knows."""

    def read(self, offset: int, most_bytes: int, least_bytes: int = 1) -> Piece:
        """Bytes from there on; none, and not the last, when there are fewer than `least_bytes` yet."""

    def crc32(self, start: int, end: int, begun: int) -> int:
        """Of the bytes from `start` to `end`, going on from what those before `start` have."""

    def line_end(self, offset: int) -> int | None:
        """Behind the end of the line that begins there, or the end of all; None when it has not come yet."""

    def release(self, position: int) -> None:
        """All up to there is safe with the server."""

    def close(self) -> None:
        """Give everything back."""


def whole_lines(piece: Piece) -> Piece:
    """Without what stands behind the last end of a line: the server would not take it."""
    end = piece.data.rfind(NEWLINE) + 1
    if piece.is_last or not end or end == len(piece.data):
        return piece
    return Piece(piece.data[:end], False)
