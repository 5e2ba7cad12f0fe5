"""The first line of a CSV file, which names its columns and is not sent as data."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from towpath.errors import BadValue

MOST_BYTES = 1 << 20
MARK = b"\xef\xbb\xbf"  # of UTF-8, which some programs put before everything


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """Its columns, and how much of the file it takes."""

    columns: tuple[str, ...]
    bytes: int
    lines: int


def read_header(readline: Callable[[int], bytes], name: str) -> CsvHeader:
    """The header of a file that is read line by line, and no more of it."""
    used = count = 0

    def texts() -> Iterator[str]:
        nonlocal used, count
        while line := readline(MOST_BYTES + 1):
            first, used, count = used == 0, used + len(line), count + 1
            if used > MOST_BYTES:
                raise BadValue(f"{name} has no end of a header within {MOST_BYTES:,} bytes; is it a CSV file?")
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
