"""Records as lines: the JSON that `read --json` prints and `send --records` takes, and lines of a file as records.

The JSON is exact to the byte: bytes that are UTF-8 are text, others `{"base64": "…"}`. Headers are pairs, so that one
name may come twice.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

from towpath.cli.context import UsageError
from towpath.core.exact_json import to_json
from towpath.errors import BadRecord, Refused

if TYPE_CHECKING:
    from towpath.log import NewRecord, Record, Topic


CHUNK = 1 << 20
# Text may be spelled `\u0000`, six bytes for one.
MOST_SPELLING = 6
ROOM_FOR_THE_REST = 64 << 10
_PARTS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_WHAT_A_TEXT_IS = 'text, {"base64": "…"} or null'


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Records of neighbouring lines, and the bytes of input read up to here."""

    records: list[NewRecord]
    lines: list[int]
    bytes: int


@dataclass(frozen=True, slots=True)
class LineForm:
    """What a line is: JSON whose bytes are the value, a record spelled as JSON, or (`raw`) any bytes."""

    raw: bool = False
    records: bool = False
    key: bytes | None = None
    key_field: str | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def record(self, line: bytes) -> NewRecord | None:
        """None for a blank line, which between documents of JSON means nothing."""
        from towpath.log import NewRecord

        if self.raw:
            return NewRecord(line, self.key, self.headers)
        line = line.removesuffix(b"\r")
        if not line.strip():
            return None
        if self.records:
            record = from_line(line)
            key = record.key if self.key is None else self.key
            return record._replace(headers=record.headers + self.headers, key=key)
        document = _parse(line)
        key = self.key if self.key_field is None else _key_of(document, self.key_field)
        return NewRecord(line, key, self.headers)

    def only_record(self, text: bytes) -> NewRecord:
        """The one record that was typed, however many lines it has."""
        record = self.record(text)
        if record is None:
            raise BadRecord("not JSON: it is blank; --raw sends any text")
        return record

    def longest(self, max_record_bytes: int) -> int:
        """A line beyond this cannot be a record, so that there is no need to look for its end."""
        return max_record_bytes * MOST_SPELLING + ROOM_FOR_THE_REST if self.records else max_record_bytes


class BadLine(BadRecord):
    """A line that is no record. All lines before it were yielded."""

    def __init__(self, number: int, why: object) -> None:
        self.number = number
        super().__init__(f"line {number}: {why}")


class RecordLines:
    """The records of a stream for a topic. Raises `BadLine` at the first one that the topic could not hold."""

    def __init__(self, stream: IO[bytes], form: LineForm, topic: Topic, max_record_bytes: int) -> None:
        self._stream = stream
        self._form = form
        self._topic = topic
        self._max_record_bytes = max_record_bytes
        self._longest = form.longest(max_record_bytes)
        self._too_long = f"longer than log.max_record_bytes ({max_record_bytes}) allows"

    def batches(self, first_line: int = 1) -> Iterator[LineBatch]:
        """Batches as input comes: what was read is yielded before more is waited for."""
        read = before = 0
        for lines, is_too_long, size in self._chunks():
            read += size
            batch = LineBatch([], [], read)
            for number, line in enumerate(lines, before + 1):
                try:
                    record = self._record(line) if number >= first_line else None
                except Refused as error:
                    if batch.records:
                        yield batch
                    raise BadLine(number, error) from error
                if record is not None:
                    batch.records.append(record)
                    batch.lines.append(number)
            if batch.records:
                yield batch
            before += len(lines)
            if is_too_long and before + 1 >= first_line:
                raise BadLine(before + 1, self._too_long)

    def _chunks(self) -> Iterator[tuple[list[bytes], bool, int]]:
        """Whole lines, whether the next one is too long already, and how many bytes were read."""
        rest = b""
        while chunk := _some(self._stream):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: self._longest + 1]
            yield lines, len(rest) > self._longest, len(chunk)
        if rest:
            yield [rest], False, 0

    def _record(self, line: bytes) -> NewRecord | None:
        from towpath.log.record import check_record

        if len(line) > self._longest:
            raise BadRecord(self._too_long)
        record = self._form.record(line)
        if record is not None:
            check_record(record, self._max_record_bytes)
            if record.partition is not None:
                self._topic.check_partition(record.partition)
        return record


def to_line(record: Record) -> str:
    from towpath.operations.topics import record_item

    return json.dumps(record_item(record), ensure_ascii=False)


def from_line(line: bytes) -> NewRecord:
    """A record to append; raises `BadRecord`. Topic and offset, as `read --json` prints them, count for nothing."""
    from towpath.log import NewRecord

    item = _parse(line)
    if not isinstance(item, dict):
        raise BadRecord('a record is {"value": …, "key": …, "headers": …, "timestamp": …, "partition": …}')
    if unknown := sorted(item.keys() - _PARTS):
        raise BadRecord(f"{unknown[0]!r} is not a part of a record; parts: {', '.join(sorted(_PARTS))}")
    if "value" not in item:
        raise BadRecord('a record has a "value", if only null')
    return NewRecord(
        _bytes(item["value"], "value"),
        _bytes(item.get("key"), "key"),
        _headers(item.get("headers")),
        _number(item.get("timestamp"), "timestamp"),
        _number(item.get("partition"), "partition"),
    )


def _parse(line: bytes) -> Any:
    """A document of strict JSON; raises `BadRecord`."""
    try:
        return json.loads(line.decode(), parse_constant=_refuse, parse_int=_whole, parse_float=Digits)
    except UnicodeDecodeError as error:
        raise BadRecord(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise BadRecord(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise BadRecord("not JSON: nested too deeply") from error


def parse_header(pair: str) -> tuple[str, bytes]:
    """`name=value`."""
    name, sign, value = pair.partition("=")
    if not sign or not name.isascii() or not name.isprintable() or not name.strip():
        raise UsageError(f"--header {pair!r} is not NAME=VALUE with a name of printable ASCII")
    return name, value.encode()


class Digits(str):
    """A number as it is written, where a Python number would lose digits."""

    __slots__ = ()


def _whole(text: str) -> int | Digits:
    return int(text) if len(text) <= 1000 else Digits(text)


def _refuse(constant: str) -> NoReturn:
    raise BadRecord(f"not JSON: {constant}")


def _bytes(given: Any, name: str) -> bytes | None:
    match given:
        case None:
            return None
        case Digits():
            pass
        case str():
            try:
                return given.encode()
            except UnicodeEncodeError as error:
                raise BadRecord(f"the {name} holds an unpaired surrogate, which is no text") from error
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise BadRecord(f"the {name} is not base64: {error}") from error
    raise BadRecord(f"the {name} is {_WHAT_A_TEXT_IS}; a JSON document as text, in quotes")


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    match given:
        case None:
            return ()
        case dict():
            pairs: Any = given.items()
        case list() if all(isinstance(pair, list) and len(pair) == 2 for pair in given):
            pairs = given
        case _:
            raise BadRecord('headers are {"name": value, …} or [["name", value], …]')
    if not all(type(name) is str for name, _ in pairs):
        raise BadRecord("the name of a header is text")
    return tuple((name, _bytes(value, f"header {name!r}")) for name, value in pairs)


def _number(given: Any, name: str) -> int | None:
    if given is None or type(given) is int:
        return given
    raise BadRecord(f"the {name} is a whole number" + (" of milliseconds since 1970" if name == "timestamp" else ""))


def _some(stream: IO[bytes]) -> bytes:
    """What is there now, at least one byte unless the stream has ended."""
    if isinstance(stream, io.BufferedReader | io.BytesIO):
        return stream.read1(CHUNK)
    return stream.read(CHUNK)


def _key_of(document: Any, field: str) -> bytes | None:
    if not isinstance(document, dict) or field not in document:
        raise BadRecord(f"there is no field {field!r} to take the key from")
    value = document[field]
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise BadRecord(f"the field {field!r} is no text and no number, so it can be no key")
    try:
        return (value if isinstance(value, str) else to_json(value)).encode()
    except UnicodeEncodeError as error:
        raise BadRecord(f"the field {field!r} holds an unpaired surrogate, which is no text") from error
