"""Bytes to whole lines, the same ones however the bytes were cut into chunks; and values for refused lines. Pure.

A line ends with a line feed. A CSV record is a line too, and may hold line ends inside quotes. What is decided about
a line depends on its own bytes only: nothing is taken before enough of it is there to decide. A compressed chunk is a
gzip of its own, and is unpacked no larger than a chunk may be.

A line that is not a record goes into the topic all the same, as a value that no flow can take for a document. Such an
array fails in every flow, and becomes a case of the desk with the rule that was not met, the number of the line and
the line itself. So nothing that a sender has sent is lost without a person knowing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import orjson

from towpath.errors import BadChunk, BadValue, ChunkGap, ChunkTooLarge
from towpath.log.record import Headers

Format = Literal["jsonl", "csv"]
END = b"\n"
QUOTE = b'"'
# Quotes count only where a field begins with one. Nothing in it is tried twice: a doubled quote at the end of what is
# there must not be taken for the end of a field.
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"(?!")[^,\n]*+|[^",\n][^,\n]*+|)'
_RECORD = re.compile(rb"%b(?:,%b)*+(?:\n|\Z)" % (_FIELD, _FIELD))

LARGEST = (1 << 62) - 1  # of offsets and sequence numbers, which have to fit into a column

_GZIP = 16 + zlib.MAX_WBITS

MARK = "towpath-refused"
SHOWN_CHARACTERS = 1_000  # of a line that is too long to be kept


class LineReader(Protocol):
    """Lines of one sender to values of records."""

    def read(self, lines: Sequence[bytes], numbers: Sequence[int]) -> LineReading:
        """What becomes of each of the lines; `numbers` are those under which the sender knows them."""


@dataclass(frozen=True, slots=True)
class LineReading:
    """For each line the value and the key of its record, None where it is refused or blank; and why it is refused."""

    values: list[bytes | None]
    keys: list[bytes | None]
    refusals: dict[int, LineRefusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineRefusal:
    """Why a line is refused. `rule` is a short name that all such lines share; `is_cut`: its text is not all of it."""

    rule: str
    message: str
    is_cut: bool = False


def refused_value(refusal: LineRefusal, line: bytes, number: int, upload: str, sender: str) -> bytes:
    """The value of the record that stands for a refused line."""
    about = {
        "rule": refusal.rule,
        "message": f"line {number}: {refusal.message}",
        "line": number,
        "sender": sender,
        "upload": upload,
    }
    text = shown(line[: 4 * SHOWN_CHARACTERS])[:SHOWN_CHARACTERS] if refusal.is_cut else shown(line)
    return orjson.dumps([MARK, about, text])


def too_long(most_bytes: int) -> LineRefusal:
    """The refusal of a long line: the same for one that was seen whole and one that its sender has skipped."""
    return LineRefusal("line too long", f"longer than {most_bytes} bytes; its beginning is kept", is_cut=True)


def shown(line: bytes) -> str:
    """The line as text; bytes that are no UTF-8 are written `\\xNN`."""
    return line.decode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Stamp:
    """The upload and the sender, and under which names an upload and a line stand in a record."""

    upload: str
    sender: str
    upload_field: str = "upload"
    line_field: str = ""

    @property
    def reserved(self) -> tuple[str, ...]:
        """Names that a line may not have of its own."""
        return tuple(name for name in (self.upload_field, self.line_field) if name)

    def beginning(self, number: int) -> str:
        """How the JSON object of a line begins; the fields of the line follow."""
        line = f",{_spelt(self.line_field)}:{number}" if self.line_field else ""
        return f"{{{_spelt(self.upload_field)}:{_spelt(self.upload)}{line}"

    def headers(self, numbers: Iterable[int]) -> list[Headers]:
        upload, sender = ("upload", self.upload.encode()), ("sender", self.sender.encode())
        return [(upload, sender, ("line", b"%d" % number)) for number in numbers]


def _spelt(text: str) -> str:
    return orjson.dumps(text).decode()


def cut_lines(data: bytes, format: Format, most_bytes: int, *, is_last: bool) -> LineCut:
    """The whole lines at the beginning of the data; with `is_last` all of it, for nothing comes behind it.

    A line of more than `most_bytes` is given as one of them if its end is there. If not, and so much of it is there
    that it is known to be one, the cut says so.
    """
    if format == "csv" and QUOTE in data:
        return _cut_records(data, most_bytes, is_last)
    return _cut_plain(data, most_bytes, is_last)


@dataclass(frozen=True, slots=True)
class LineCut:
    """Whole lines without their ends, how many bytes they are with them, and whether the next one is too long."""

    lines: list[bytes]
    used: int
    is_too_long: bool = False


def _cut_plain(data: bytes, most_bytes: int, is_last: bool) -> LineCut:
    end = len(data) if is_last else data.rfind(END) + 1
    return LineCut(_split(data[:end]), end, len(data) - end > most_bytes)


def _split(data: bytes) -> list[bytes]:
    if not data:
        return []
    return (data[:-1] if data.endswith(END) else data).split(END)


def _cut_records(data: bytes, most_bytes: int, is_last: bool) -> LineCut:
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
                return LineCut(lines, at, cut.is_too_long)
        stop = _end_of_record(data, at, most_bytes, is_last)
        if stop is None:
            return LineCut(lines, at, end - at > most_bytes)
        lines.append(data[at:stop].removesuffix(END))
        at = stop
    return LineCut(lines, at)


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


@dataclass(frozen=True, slots=True)
class BytePosition:
    """Where a sender is, or where a chunk says that it belongs."""

    offset: int
    sequence: int

    def __post_init__(self) -> None:
        for name, value in (("offset", self.offset), ("sequence", self.sequence)):
            if type(value) is not int or not 0 <= value <= LARGEST:
                raise BadValue(f"{name}={value!r}: it is a whole number from 0 to {LARGEST}")


def known_bytes(taken: BytePosition, chunk: BytePosition, length: int) -> int | None:
    """How many bytes at the beginning of the chunk are known already; None when there is nothing new in it.

    `ChunkGap` when bytes are missing between what was taken and the chunk.
    """
    if chunk.sequence <= taken.sequence:
        return None
    if chunk.offset > taken.offset:
        raise ChunkGap(chunk.offset, taken.offset)
    known = taken.offset - chunk.offset
    return known if known < length else None


def unzipped(data: bytes, most_bytes: int) -> bytes:
    """The plain bytes; `BadChunk` if it is no whole gzip, `ChunkTooLarge` as soon as it is more than so many."""
    unzip = zlib.decompressobj(_GZIP)
    try:
        plain = unzip.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise BadChunk(f"the chunk is not gzip: {error}; send it again, or send it plain") from error
    if len(plain) > most_bytes:
        raise ChunkTooLarge(most_bytes)
    if not unzip.eof:
        raise BadChunk("the gzip of the chunk ends too soon: it was cut on its way; send it again")
    if unzip.unused_data:
        raise BadChunk("something stands behind the gzip of the chunk: a chunk is one gzip and nothing else")
    return plain
