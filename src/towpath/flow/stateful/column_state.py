"""What a join on columns keeps and compares: waiting records, the cells by which they are joined, and its watermark.

**Records that may still find a partner** (`JoinBuffer`, pure). Each is kept until the watermark is further ahead of it
than the join reaches: whoever could be its partner then would be late. From there on it is *hopeless* and matches
nothing, whether it was taken out of the state already or not, so that the result does not depend on when somebody
looks. One that was late itself, and was taken all the same, is kept as if its time were the watermark at which it came.

**Cells** (`join_key`, `event_ms`, pure). Numbers are compared as numbers, so 1 is 1.0 and 1e0; texts as texts, so 1 is
not "1". A key or a header of a record is a text. Whole numbers of 64 bits are exact, others are what a double makes of
them. Null, objects and lists are equal to nothing.

**The watermark** (`watermarks`): how far event time has come, and how the workers of a batch know it. It is the highest
time that each input has had in committed batches, of the input that is furthest behind, less what may be late. It is
fixed with the snapshot of a batch, in its row, so every attempt at the batch has the same one, and it never goes back.
An input that has sent nothing yet holds it back: without an end.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from towpath.flow.documents.types import Misfit, TimestampType
from towpath.flow.graph.stateful_nodes import ColumnJoin, FieldPart, HeaderPart, KeyPart, RecordPart, whole_number
from towpath.flow.stateful.keeper import ShardState
from towpath.log.record import Headers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.flow.graph.nodes import Source

ALWAYS = -(1 << 62)  # a watermark that has passed nothing
_LAST_MS = 253_402_300_799_999  # of the year 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = TimestampType()
_encode = msgspec.msgpack.encode
PROPERTY = "towpath.watermarks"
Times = Mapping[str, int]  # in milliseconds: watermarks by source, event times by source and input


class BufferedRecord(NamedTuple):
    """A record as it lies in its topic, or in the re-entry topic, with its time, and whether it has had a partner."""

    time_ms: int
    topic: str
    partition: int
    offset: int
    until_ms: int  # the last watermark at which it may find a partner
    is_matched: bool
    timestamp_ms: int
    key: bytes | None
    headers: Headers
    value: bytes

    @property
    def coordinates(self) -> tuple[str, int, int]:
        return self[1:4]


class UnmatchedRecord(NamedTuple):
    """One that leaves without a partner. `input`: its place among the inputs."""

    input: int
    entry: BufferedRecord


class JoinBuffer:
    """What is kept of one key: for each of two inputs, by time."""

    def __init__(self, value: Any = None) -> None:
        _, *sides = value or (0, (), ())
        self.sides = [[BufferedRecord(*each) for each in side] for side in sides]

    def to_value(self) -> list[Any]:
        """With the least `until_ms` first, so that what is hopeless in a shard is found without reading all of it."""
        return [min(entry.until_ms for side in self.sides for entry in side), *map(list, self.sides)]

    @property
    def is_empty(self) -> bool:
        return not any(self.sides)

    def meet(self, input: int, entry: BufferedRecord, within_ms: int, watermark: int) -> list[BufferedRecord]:
        """Keep a record; the partners that are there, by time, as they were before it came."""
        others = self.sides[1 - input]
        start = bisect_left(others, entry.time_ms - within_ms, key=_time)
        stop = bisect_left(others, entry.time_ms + within_ms + 1, key=_time)
        places = [at for at in range(start, stop) if others[at].until_ms >= watermark]
        partners = [others[at] for at in places]
        for at in places:
            others[at] = others[at]._replace(is_matched=True)
        insort(self.sides[input], entry._replace(is_matched=bool(partners)), key=_place)
        return partners

    def take_hopeless(
        self, watermark: int, stays: Sequence[bool], most: int | None = None
    ) -> Iterator[UnmatchedRecord]:
        """Take those out that find no partner any more, and give the ones that never had any.

        `stays`: by input, whether the latter stay for now. `most`: how many of these are given.
        """
        for input, side in enumerate(self.sides):
            kept = []
            for entry in side:
                if entry.until_ms >= watermark or (not entry.is_matched and (stays[input] or most == 0)):
                    kept.append(entry)
                elif not entry.is_matched:
                    most = None if most is None else most - 1
                    yield UnmatchedRecord(input, entry)
            side[:] = kept


def take_hopeless(
    state: ShardState, watermark: int, stays: Sequence[bool] = (False, False), most: int | None = None
) -> Iterator[UnmatchedRecord]:
    """The same of all keys of a shard."""
    for key in [key for key, value in state.items() if value[0] < watermark]:
        waiting = JoinBuffer(state[key])
        for left in waiting.take_hopeless(watermark, stays, most):
            most = None if most is None else most - 1
            yield left
        if waiting.is_empty:
            del state[key]
        else:
            state[key] = waiting.to_value()


def least_until_ms(state: ShardState) -> int | None:
    """The last watermark at which all records of a shard may find a partner."""
    return min((value[0] for value in state.values()), default=None)


def _time(entry: BufferedRecord) -> int:
    return entry.time_ms


def _place(entry: BufferedRecord) -> tuple[int, str, int, int]:
    return entry[:4]


def cell(part: RecordPart, document: Any, key: bytes | None, headers: Headers) -> Any:
    """The value of a part of a record; None where it has none."""
    match part:
        case KeyPart():
            return key
        case HeaderPart(name):
            values = [value for called, value in headers if called == name]
            return values[-1] if values else None
        case FieldPart(names):
            for name in names:
                if not isinstance(document, Mapping) or name not in document:
                    return None
                document = document[name]
            return document


def join_key(cells: Sequence[Any]) -> bytes | None:
    """What records are known by that belong together; None: one of the columns is equal to nothing."""
    found = [_comparable(value) for value in cells]
    return None if None in found else _encode(found)


def _comparable(value: Any) -> str | bytes | None:
    match value:
        case bool():
            return b"true" if value else b"false"
        case int():
            return b"%d" % value
        case float() | Decimal():
            exact = float(value)
            if exact in (float("inf"), float("-inf")):
                return None
            return b"%d" % int(exact) if exact.is_integer() else repr(exact).encode()
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return b"bytes " + value
    return None


def event_ms(value: Any, name: str) -> int:
    """The time in a cell: milliseconds since 1970, or a text as RFC 3339 has it; `ValueError` says why it is none."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    text = float(text) if isinstance(text, Decimal) else text
    if isinstance(text, str):
        number = whole_number(text.encode())
        found = _read(text, name) if number is None else number
    elif isinstance(text, int | float) and not isinstance(text, bool) and text == text // 1:
        found = int(text)
    elif text is None:
        raise ValueError(f"the record has no {name}, by which its time is known")
    else:
        raise ValueError(f"{name} is no time: milliseconds since 1970, or a text like 2024-05-06T07:08:09Z")
    if not -_LAST_MS <= found <= _LAST_MS:
        raise ValueError(f"{name} is no time: {found} ms are beyond the year 9999")
    return found


def _read(text: str, name: str) -> int:
    try:
        return (_TIME.fit(text, name) - _EPOCH) // timedelta(milliseconds=1)
    except Misfit as error:
        raise ValueError(str(error)) from None


def input_name(source: str, input: str) -> str:
    """By what the event times of an input are known."""
    return f"{source}/{input}"


def later_of(one: Times, other: Times) -> dict[str, int]:
    return {name: max(each[name] for each in (one, other) if name in each) for name in sorted({*one, *other})}


def watermarks(sources: Iterable[Source], event_times: Times, before: Times) -> dict[str, int]:
    """By source. `before`: those of the last batch."""
    found = {}
    for source in sources:
        if isinstance(source.join, ColumnJoin):
            inputs = [input_name(source.name, name) for name in source.join.names]
            if all(name in event_times for name in inputs):
                found[source.name] = min(event_times[name] for name in inputs) - source.join.late_ms
    return later_of(found, before)


def is_column(source: Source) -> bool:
    return isinstance(source.join, ColumnJoin)


def tell_workers(spark: SparkSession, found: Times) -> None:
    """For all jobs that this thread begins: the plan of a query is put together once, and knows no batch."""
    spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(dict(found)))


def told_watermark(source: str) -> int | None:
    """What the driver has told the task that asks. None: nothing is known yet, so nothing is late."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(PROPERTY)
    return None if text is None else json.loads(text).get(source)
