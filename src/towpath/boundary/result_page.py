"""Reading the files of a result from a cursor on. Needs no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from towpath.boundary.cursor import Cursor
from towpath.boundary.result_files import ResultFile
from towpath.errors import BadCursor

LINE_END = b"\n"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a cursor is among the files: the number of the file and the byte in it."""

    BEGINNING: ClassVar[Place]

    file: int
    byte: int

    def is_end(self, files: Sequence[ResultFile]) -> bool:
        """Whether no row stands behind it. No file is empty."""
        if not files:
            return True
        return self.file == len(files) - 1 and self.byte == files[-1].path.stat().st_size


Place.BEGINNING = Place(-1, 0)


class Rows(NamedTuple):
    """Some rows as JSON lines, where to go on, and whether no row stands behind them and none will."""

    lines: bytes
    rows: int
    at: Cursor
    is_end: bool


def place_of(files: Sequence[ResultFile], at: Cursor, text: str) -> Place:
    """Where that is; `BadCursor` when there is no beginning of a line there."""
    if at.is_start:
        return Place.BEGINNING
    for number, file in enumerate(files):
        if file.place == at.place and file.key == at.key:
            _check_line(file, at.byte, text)
            return Place(number, at.byte)
    raise BadCursor(text, "it names a place that this result does not have")


def read_rows(
    files: Sequence[ResultFile], at: Cursor, text: str, most_rows: int, most_bytes: int, is_complete: bool
) -> Rows:
    """The rows from there on, as many as are allowed, at least one if there is one."""
    place = place_of(files, at, text)
    lines: list[bytes] = []
    size = 0
    for number in range(max(place.file, 0), len(files)):
        file, byte = files[number], place.byte if number == place.file else 0
        some = _lines(file, byte, most_rows - len(lines), most_bytes - size, is_first=not lines)
        if not some and lines:
            break  # no room for one more
        if not some:
            continue  # at the end of a file
        length = sum(map(len, some))
        lines, size, place = lines + some, size + length, Place(number, byte + length)
        at = Cursor(*file.place, file.key, place.byte, at.row + len(some))
        if place.byte < file.path.stat().st_size:
            break
    return Rows(b"".join(lines), len(lines), at, is_complete and place.is_end(files))


def _lines(file: ResultFile, byte: int, most_rows: int, most_bytes: int, *, is_first: bool) -> list[bytes]:
    """Whole lines. The first of all may be longer than is allowed: it has to go some time."""
    with file.path.open("rb") as opened:
        opened.seek(byte)
        chunk = opened.read(max(most_bytes, 0))
        whole, end, _ = chunk.rpartition(LINE_END)
        if end:
            return [line + LINE_END for line in whole.split(LINE_END)[:most_rows]]
        line = chunk + opened.readline() if is_first else b""
        return [line] if line else []


def _check_line(file: ResultFile, byte: int, text: str) -> None:
    if byte > 0:
        with file.path.open("rb") as opened:
            opened.seek(byte - 1)
            if opened.read(1) == LINE_END:
                return
    raise BadCursor(text, "it does not point behind a row")
