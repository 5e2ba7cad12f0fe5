"""Pages of a result: its files read from a cursor on, as JSON lines or as CSV. Needs no database.

A cursor is where a reader of a result is, as a text that it hands back. It names the file (lane, generation, batch,
key), the byte in it and the number of rows before it. It bears a sum over all this and over upload and query, so that
one that was cut off, typed wrong or meant for another query is refused and not taken for some other place. The sum is
no secret: whoever makes up a cursor sees only rows that are its own, and a byte that is not the beginning of a line
is refused by whoever reads there.

CSV is as RFC 4180 has it, with `\n` at the end of a line. A null is an empty cell, an empty text is `""`; numbers are
written as they stand in the line; lists and objects are JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from towpath.errors import BadCursor
from towpath.gateway.outlet.store import ResultFile

VERSION = "1"
NO_FILE = "-"
MOST_CHARACTERS = 200
_NUMBER = r"(0|[1-9]\d{0,17})"
_CURSOR = re.compile(
    rf"{VERSION}\.{_NUMBER}\.{_NUMBER}\.{_NUMBER}\.(-|[0-9a-f]{{16}})\.{_NUMBER}\.{_NUMBER}\.([0-9a-f]{{12}})"
)

LINE_END = b"\n"

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')


def read_rows(
    files: Sequence[ResultFile], at: Cursor, text: str, most_rows: int, most_bytes: int, is_complete: bool
) -> ResultRows:
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
        lines, size, place = lines + some, size + length, FilePosition(number, byte + length)
        at = Cursor(*file.place, file.key, place.byte, at.row + len(some))
        if place.byte < file.path.stat().st_size:
            break
    return ResultRows(b"".join(lines), len(lines), at, is_complete and place.is_end(files))


class ResultRows(NamedTuple):
    """Some rows as JSON lines, where to go on, and whether no row stands behind them and none will."""

    lines: bytes
    rows: int
    at: Cursor
    is_end: bool


def place_of(files: Sequence[ResultFile], at: Cursor, text: str) -> FilePosition:
    """Where that is; `BadCursor` when there is no beginning of a line there."""
    if at.is_start:
        return FilePosition.BEGINNING
    for number, file in enumerate(files):
        if file.place == at.place and file.key == at.key:
            _check_line(file, at.byte, text)
            return FilePosition(number, at.byte)
    raise BadCursor(text, "it names a place that this result does not have")


def _lines(file: ResultFile, byte: int, most_rows: int, most_bytes: int, *, is_first: bool) -> list[bytes]:
    """Whole lines. The first line may be longer than allowed, or it would never go out."""
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


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a result, before its first row or behind some row of a file."""

    lane: int = 0
    generation: int = 0
    batch: int = 0
    key: str = NO_FILE
    byte: int = 0
    row: int = 0  # rows before it, from the beginning of the result

    @property
    def is_start(self) -> bool:
        return self.key == NO_FILE

    @property
    def place(self) -> tuple[int, int, int]:
        return self.lane, self.generation, self.batch

    def to_text(self, upload: str, query: str) -> str:
        said = f"{VERSION}.{self.lane}.{self.generation}.{self.batch}.{self.key}.{self.byte}.{self.row}"
        return f"{said}.{_sum(said, upload, query)}"

    @classmethod
    def from_text(cls, text: str, upload: str, query: str) -> Cursor:
        """The cursor that `to_text` wrote for this query; `BadCursor` for anything else."""
        fits = _CURSOR.fullmatch(text) if len(text) <= MOST_CHARACTERS and text.isascii() else None
        if fits is None:
            raise BadCursor(text, "it is not one that was given out; leave it out to begin at the first row")
        lane, generation, batch, key, byte, row, said = fits.groups()
        if said != _sum(text.rpartition(".")[0], upload, query):
            raise BadCursor(text, "it was changed, or belongs to another upload or query")
        found = cls(int(lane), int(generation), int(batch), key, int(byte), int(row))
        if found.is_start and found != START:
            raise BadCursor(text, "it names no file and yet a place in one")
        return found


START = Cursor()


def _sum(said: str, upload: str, query: str) -> str:
    return hashlib.sha256(f"{said}\n{upload}\n{query}".encode()).hexdigest()[:12]


def columns_of(line: bytes, without: Iterable[str] = ()) -> tuple[str, ...]:
    """The fields of a line, in their order."""
    left_out = frozenset(without)
    return tuple(name for name in _parsed(line) if name not in left_out)


@dataclass(frozen=True, slots=True, order=True)
class FilePosition:
    """Where a cursor is among the files: the number of the file and the byte in it."""

    BEGINNING: ClassVar[FilePosition]

    file: int
    byte: int

    def is_end(self, files: Sequence[ResultFile]) -> bool:
        """Whether no row stands behind it. No file is empty."""
        if not files:
            return True
        return self.file == len(files) - 1 and self.byte == files[-1].path.stat().st_size


FilePosition.BEGINNING = FilePosition(-1, 0)


class _Number(str):
    """A number as it stands in the text."""

    __slots__ = ()


def csv_header(columns: Sequence[str]) -> bytes:
    return _row(columns)


def csv_lines(lines: bytes, columns: Sequence[str]) -> bytes:
    """JSON lines as CSV rows; a field that a row does not have is an empty cell."""
    parsed = (_parsed(line) for line in lines.splitlines() if line)
    return b"".join(_row([document.get(name) for name in columns]) for document in parsed)


def _parsed(line: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(line, parse_float=_Number, parse_int=_Number)
    return document


def _row(cells: Sequence[Any]) -> bytes:
    # One empty cell alone would be an empty line, which readers pass over.
    text = '""' if len(cells) == 1 and cells[0] is None else ",".join(map(_cell, cells))
    return text.encode(errors="replace") + b"\n"


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case _Number():
            return value
        case str():
            return _quoted(value)
    return _quoted(_json(value))


def _quoted(text: str) -> str:
    if text and not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _json(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case dict():
            return (
                "{"
                + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_json(part)}" for name, part in value.items())
                + "}"
            )
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
