"""Which records of a topic a command is about, following a topic as it grows, and how records look."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import typer

from towpath.cli.context import UsageError, say
from towpath.cli.options import parse_time_ms, shown_time
from towpath.cli.output import console, plain, pretty, print_fields
from towpath.cli.topics.lines import parse_header, to_line
from towpath.core.exact_json import Exact
from towpath.errors import LogUnavailable, OffsetOutOfRange, TopicReplaced, UnknownPartition, UnknownTopic
from towpath.log import Log, Record, Topic
from towpath.log.record import Headers

ROUND_S = 0.2
WIDER = 8
NOTHING = "∅"  # no key, or no value: other than an empty one
MOST_BYTES_OF_A_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """Offsets of one partition or of all."""

    partition: int | None
    start: int | None = None
    stop: int | None = None
    starts: dict[int, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether the start was given; if its record is gone, that is an error."""
        return self.start is not None


def span_of(log: Log, topic: str, span: OffsetSpan, since: str | None, now_ms: int) -> OffsetSpan:
    """The span, with a start for each of its partitions."""
    found = log.topic(topic)
    number = span.partition
    if number is not None:
        found.check_partition(number)
    elif span.start is not None or span.stop is not None:
        if found.partitions > 1:
            raise UsageError(f"an offset is of one partition: say which of the {found.partitions} with --partition")
        number = 0
    at = log.starts(topic) if since is None else log.offsets_at(topic, parse_time_ms(since, "--since", now_ms))
    if span.start is not None and number is not None:
        at[number] = span.start
    starts = at if number is None else {number: at[number]}
    return OffsetSpan(number, span.start, span.stop, starts)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on a record; all must hold."""

    key: bytes | None
    contains: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, key: str | None, contains: str | None, headers: Sequence[str] | None) -> RecordFilter:
        return cls(
            None if key is None else key.encode(),
            None if contains is None else contains.encode(),
            tuple(map(parse_header, headers or ())),
        )

    def fits(self, record: Record) -> bool:
        return (
            (self.key is None or record.key == self.key)
            and (self.contains is None or self.contains in (record.value or b""))
            and all(header in record.headers for header in self.headers)
        )


def pause_for(log: Log, topic: str) -> Callable[[], object]:
    """A pause until the next look; on SQLite a record that is appended ends it."""
    from towpath.log.sqlite.log import SqliteLog, wakeup_name

    if not isinstance(log, SqliteLog):
        return lambda: time.sleep(ROUND_S)
    wakeup = log.database.wakeups.hang(wakeup_name(topic))

    def until_rung() -> None:
        wakeup.wait(ROUND_S)
        wakeup.clear()

    return until_rung


class TopicFollower:
    """Each record after a moment once, in the order of its partition; partitions that are added later too."""

    def __init__(self, log: Log, topic: Topic, partition: int | None = None) -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        with self._while_it_lasts():
            self._next = self._ends()
        self._is_away = False

    def last(self, count: int) -> list[Record]:
        """The last `count` records before the moment, ordered by time."""
        if count == 0:
            return []
        with self._while_it_lasts():
            starts = self._log.starts(self._topic.name)
            try:
                found = [each for number, end in self._next.items() for each in self._last(number, end, starts, count)]
            except LogUnavailable:  # what Kafka's reader says too when the topic is deleted under it
                self._check_topic()
                raise
        return sorted(found, key=lambda record: (record.timestamp_ms, record.partition, record.offset))[-count:]

    def follow(self, pause: Callable[[], object]) -> Iterator[Record]:
        """New records without end; waits while the log is away."""
        while True:
            try:
                with self._while_it_lasts():
                    yield from self._news()
                if self._is_away:
                    say("the log is back")
                    self._is_away = False
            except LogUnavailable as error:
                if not self._is_away:
                    say(f"waiting: {error}")
                self._is_away = True
            pause()

    def _last(self, number: int, end: int, starts: dict[int, int], count: int) -> list[Record]:
        """Offsets have holes, so that it may have to look back further than `count`."""
        start, width = starts.get(number, 0), count
        while True:
            first = max(start, end - width)
            found = list(self._log.read(self._topic.name, number, min(first, end), end))
            if len(found) >= count or first <= start:
                return found[-count:]
            width *= WIDER

    def _news(self) -> Iterator[Record]:
        for number, end in self._ends().items():
            first = self._next.get(number, 0)
            if first >= end:
                continue
            for record in self._read(number, first, end):
                self._next[number] = record.offset + 1  # also when the log goes away in the middle
                yield record
            self._next[number] = end

    def _read(self, number: int, first: int, end: int) -> Iterator[Record]:
        name = self._topic.name
        try:
            records = self._log.read(name, number, first, end)
        except OffsetOutOfRange as error:
            self._check_topic()  # in a topic that was made again, offsets begin anew
            say(f"{name}/{number}: the records from {first} to before {error.start} are deleted already")
            records = self._log.read(name, number, error.start, end)
        self._check_topic()
        return records

    def _ends(self) -> dict[int, int]:
        ends = self._log.ends(self._topic.name)
        # Checked after the question: a topic that is still the same now was so when it was asked.
        self._check_topic()
        return ends if self._partition is None else {self._partition: ends[self._partition]}

    @contextmanager
    def _while_it_lasts(self) -> Iterator[None]:
        """The topic may be deleted, and made again with fewer partitions, between any two questions."""
        name, id_ = self._topic.name, self._topic.id
        try:
            try:
                yield
            except (OffsetOutOfRange, UnknownPartition):
                self._check_topic()
                raise
        except UnknownTopic as error:
            raise TopicReplaced(name, id_, None) from error
        except TopicReplaced as error:  # a reader knows only the name
            raise TopicReplaced(name, id_, error.found) from error

    def _check_topic(self) -> None:
        now = self._log.topic(self._topic.name).id
        if now != self._topic.id:
            raise TopicReplaced(self._topic.name, self._topic.id, now)


def record_printer(as_json: bool, *, at_once: bool = False) -> Callable[[Record], None]:
    """A function that prints a record on a line; `at_once` flushes each."""
    if as_json:
        return lambda record: _write(to_line(record), at_once)
    if not sys.stdout.isatty():
        return lambda record: _write(_line(record), at_once)
    out = console()

    def print_cut(record: Record) -> None:
        from rich.text import Text

        line = Text(_line(record, most_bytes=out.width * MOST_BYTES_OF_A_CHARACTER))
        line.stylize("dim", 0, len(_head(record)))
        out.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    return print_cut


def print_record(record: Record) -> None:
    """Print one record in full."""
    print_fields(
        [
            ("record", f"{record.topic}/{record.partition}/{record.offset}"),
            ("time", f"{shown_time(record.timestamp_ms)} UTC"),
            ("key", _text(record.key)),
            *((f"header {name}", _text(value)) for name, value in record.headers),
            ("size", "no value" if record.value is None else f"{len(record.value):,} bytes"),
        ]
    )
    if record.value is not None:
        typer.echo()
        typer.echo(_document(record.value))


def _write(line: str, at_once: bool) -> None:
    sys.stdout.write(f"{line}\n")
    if at_once:
        sys.stdout.flush()


def _head(record: Record) -> str:
    return f"{record.partition}/{record.offset}  {shown_time(record.timestamp_ms)}"


def _line(record: Record, most_bytes: int | None = None) -> str:
    headers = _headers(record.headers)
    parts = [_head(record), _text(record.key, most_bytes), *([headers] if headers else [])]
    return "  ".join([*parts, _text(record.value, most_bytes)])


def _headers(headers: Headers) -> str:
    return f"[{' '.join(f'{plain(name)}={_text(value)}' for name, value in headers)}]" if headers else ""


def _text(part: bytes | None, most_bytes: int | None = None) -> str:
    """On one line, with whatever a terminal would not show as text spelled out."""
    return NOTHING if part is None else plain(part[:most_bytes].decode(errors="backslashreplace"))


def _document(value: bytes) -> str:
    """JSON over several lines where that changes nothing about it; else the text as it is."""
    try:
        read = json.loads(
            value.decode(), parse_int=Exact, parse_float=Exact, parse_constant=Exact, object_pairs_hook=_object
        )
    except (ValueError, RecursionError):
        return "\n".join(map(plain, value.decode(errors="backslashreplace").split("\n")))
    return pretty(read)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name comes twice, and one of them would not be shown")
    return dict(pairs)
