"""Lines of a sender to records of its topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from towpath.blocks.rule import BlockAction, BlockBarrier, BlockRule
from towpath.errors import BadValue
from towpath.gateway.lines.csv_lines import CsvLines
from towpath.gateway.lines.json_lines import JsonLines
from towpath.gateway.lines.lines import LineReader, LineReading, LineRefusal, Stamp, refused_value
from towpath.gateway.uploads.model import UploadSender
from towpath.gateway.uploads.streams import Stream
from towpath.log.record import Headers, NewRecord

_ABOUT_BYTES = 1024  # of a record besides its value: key aside, headers and what a broker adds


@dataclass(frozen=True, slots=True)
class LineRecords:
    """The records of some lines, and how many of them are refused ones. A line that is blocked has no record.

    `caught` is how many lines each block rule was for, by its number.
    """

    records: list[NewRecord]
    refused: int
    blocked: int = 0
    caught: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Asked:
    topics: Sequence[str]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Callable[[int], Headers]


class RecordMaker:
    """Makes records of the lines of one sender."""

    def __init__(
        self, stream: Stream, sender: UploadSender, partitions: int, line_bytes: int, record_bytes: int
    ) -> None:
        self._stamp = Stamp(sender.upload, sender.name, stream.upload_field, stream.line_field)
        self._topic = stream.input(sender.input).topic
        self._partitions = partitions
        self._value_bytes = record_bytes - _ABOUT_BYTES
        self._fixed_key, key = None, stream.input(sender.input).key
        if key == stream.upload_field:
            self._fixed_key, key = sender.upload.encode(), None
        self._reader = _reader(stream, sender, self._stamp, key, line_bytes)

    def make(
        self,
        lines: Sequence[bytes],
        numbers: Sequence[int],
        value_bytes: int | None = None,
        barrier: BlockBarrier | None = None,
    ) -> LineRecords:
        """What becomes of the lines. A record whose key and value have more than `value_bytes` is a refused line.

        `barrier` has the block rules that may be for what this sender sends.
        """
        read = self._reader.read(lines, numbers)
        values, keys, refusals = read.values, read.keys, read.refusals
        caught = self._caught(read, numbers, barrier) if barrier else {}
        for row, rule in caught.items():
            values[row] = None
            if rule.action is BlockAction.REFUSE:
                refusals[row] = LineRefusal("blocked", rule.reason)
        self._refuse_large(values, keys, refusals, min(value_bytes or self._value_bytes, self._value_bytes))
        for row, refusal in refusals.items():
            values[row] = self.refused(refusal, lines[row], numbers[row]).value
            keys[row] = None
        fixed, partitions = self._fixed_key, self._partitions
        if fixed is not None:
            keys = [fixed] * len(values)
        records = [
            NewRecord(value, key, headers, None, None if key is not None else number % partitions)
            for value, key, headers, number in zip(values, keys, self._stamp.headers(numbers), numbers, strict=True)
            if value is not None
        ]
        numbers_caught = Counter(rule.number for rule in caught.values())
        blocked = sum(rule.action is BlockAction.IGNORE for rule in caught.values())
        return LineRecords(records, len(refusals), blocked, numbers_caught)

    def _caught(self, read: LineReading, numbers: Sequence[int], barrier: BlockBarrier) -> dict[int, BlockRule]:
        """The rule that is for each line, by row. A line that is no record is a case already."""
        keys = read.keys if self._fixed_key is None else [self._fixed_key] * len(read.keys)
        asked = _Asked([self._topic] * len(keys), keys, read.values, lambda row: self._headers(numbers[row]))
        return barrier.caught(asked, [row for row, value in enumerate(read.values) if value is not None])

    def _headers(self, number: int) -> Headers:
        (headers,) = self._stamp.headers([number])
        return headers

    def refused(self, refusal: LineRefusal, line: bytes, number: int) -> NewRecord:
        """The record of a line that is none."""
        stamp = self._stamp
        value = refused_value(refusal, line, number, stamp.upload, stamp.sender)
        if len(value) > self._value_bytes:
            cut = LineRefusal(refusal.rule, refusal.message, is_cut=True)
            value = refused_value(cut, line, number, stamp.upload, stamp.sender)
        key = self._fixed_key
        return NewRecord(
            value, key, self._headers(number), None, None if key is not None else number % self._partitions
        )

    def _refuse_large(
        self, values: list[bytes | None], keys: list[bytes | None], refusals: dict[int, LineRefusal], most_bytes: int
    ) -> None:
        """What a topic could not hold: JSON writes some characters with six."""
        if not values or sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys))) <= most_bytes:
            return
        for row, value in enumerate(values):
            size = len(value or b"") + len(keys[row] or b"")
            if size > most_bytes:
                message = f"{size} bytes as a record, and the topic takes {most_bytes}"
                refusals[row] = LineRefusal("record too large", message, is_cut=True)


def _reader(stream: Stream, sender: UploadSender, stamp: Stamp, key: str | None, line_bytes: int) -> LineReader:
    schema = stream.input(sender.input).schema
    if sender.format == "jsonl":
        return JsonLines(schema, stamp, key, line_bytes)
    if sender.columns is None:
        raise BadValue(f"sender {sender.name} has not said its columns: say them when asking for a session")
    return CsvLines(sender.columns, schema, stamp, key, line_bytes)


def numbered(lines: Sequence[bytes], first: int) -> tuple[Sequence[int], int]:
    """The number of each line, and that of the line behind the last one. A record of several lines has its first's."""
    more = [(place, line.count(b"\n")) for place, line in enumerate(lines) if b"\n" in line]
    if not more:
        return range(first, first + len(lines)), first + len(lines)
    numbers, begun = [], first
    inside = dict(more)
    for place in range(len(lines)):
        numbers.append(begun)
        begun += 1 + inside.get(place, 0)
    return numbers, begun
