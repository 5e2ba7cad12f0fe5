"""Bytes to whole lines, the same ones however the bytes were cut into chunks.

A line ends with a line feed. A CSV record is a line too, and may hold line ends inside quotes. What is decided about a
line depends on its own bytes only: nothing is taken before enough of it is there to decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Format = Literal["jsonl", "csv"]

END = b"\n"
QUOTE = b'"'

# Quotes count only where a field begins with one. Nothing in it is tried twice: a doubled quote at the end of what is
# there must not be taken for the end of a field.
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"(?!")[^,\n]*+|[^",\n][^,\n]*+|)'
_RECORD = re.compile(rb"%b(?:,%b)*+(?:\n|\Z)" % (_FIELD, _FIELD))


@dataclass(frozen=True, slots=True)
class Cut:
    """Whole lines without their ends, how many bytes they are with them, and whether the next one is too long."""

    lines: list[bytes]
    used: int
    is_too_long: bool = False


def cut_lines(data: bytes, format: Format, most_bytes: int, *, is_last: bool) -> Cut:
    """The whole lines at the beginning of the data; with `is_last` all of it, for nothing comes behind it.

    A line of more than `most_bytes` is given as one of them if its end is there. If not, and so much of it is there
    that it is known to be one, the cut says so.
    """
    if format == "csv" and QUOTE in data:
        return _cut_records(data, most_bytes, is_last)
    return _cut_plain(data, most_bytes, is_last)


def _cut_plain(data: bytes, most_bytes: int, is_last: bool) -> Cut:
    end = len(data) if is_last else data.rfind(END) + 1
    return Cut(_split(data[:end]), end, len(data) - end > most_bytes)


def _split(data: bytes) -> list[bytes]:
    if not data:
        return []
    return (data[:-1] if data.endswith(END) else data).split(END)


def _cut_records(data: bytes, most_bytes: int, is_last: bool) -> Cut:
    lines: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        quote = data.find(QUOTE, at)
        # Lines before the first quote end where they seem to.
        plain = end if quote < 0 else data.rfind(END, at, quote) + 1
        if plain > at:
            cut = _cut_plain(data[at:plain], most_bytes, is_last and plain == end)
            lines += cut.lines
            at += cut.used
            if quote < 0:
                return Cut(lines, at, cut.is_too_long)
        stop = _end_of_record(data, at, most_bytes, is_last)
        if stop is None:
            return Cut(lines, at, end - at > most_bytes)
        lines.append(data[at:stop].removesuffix(END))
        at = stop
    return Cut(lines, at)


def _end_of_record(data: bytes, at: int, most_bytes: int, is_last: bool) -> int | None:
    """Where the record that begins there ends; None if more has to come before that is known.

    A quote that does not close within the length of a line was none that opens a field: the record is then what stands
    before the next line end, and will be refused.
    """
    limit = at + most_bytes + 1
    found = _RECORD.match(data, at, limit)
    if found is not None and (found[0].endswith(END) or (is_last and found.end() == len(data))):
        return found.end()
    if len(data) < limit and not is_last:
        return None
    stop = data.find(END, at) + 1
    return stop or (len(data) if is_last else None)
