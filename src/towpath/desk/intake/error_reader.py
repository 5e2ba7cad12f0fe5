"""Parses one record of an error topic for the desk. Pure: a record in, facts out.

Errors come in floods. Those of one flow have the same headers in the same order, and those of one batch share most of
the values: where the headers are is found once (`_Layout`), and what they have in common is read once (`_Common`). A
record that came back from the desk, or whose value is in a file, has other headers and is read in the plain way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from towpath.desk.cases.model import ERROR, GAP, STRAY, case_id, case_id_of, joined
from towpath.desk.groups.model import Fingerprint, frames_only, trace_id
from towpath.flow.delivery.ledger import hash_of
from towpath.flow.failures import TRACE_CHARACTERS, ErrorCode, RecordFailure, bounded
from towpath.flow.records.errors import BLOB, ORDER, PREFIX, ErrorRecord
from towpath.flow.records.reentry import (
    CARRIED,
    CORRECTED,
    DELIVERED,
    INPUT_OFFSET,
    INPUT_PARTITION,
    INPUT_TIMESTAMP,
    INPUT_TOPIC,
    INPUT_TOPIC_ID,
    ORIGIN,
    SHARD,
    STAGE,
    TICK,
)
from towpath.log.record import Headers, Record, encode_headers

NO_STAGE = "-"
BY_KEY = "key"
UNREADABLE = "UnreadableErrorRecord"
LONGEST_NAME = 1_000  # characters of a step, a topic or a version, which come from headers
KEPT = 1_024  # what batches have in common, of the last ones
_PARTITIONS, _OFFSETS, _ATTEMPTS = 1 << 31, 1 << 62, 1 << 31

_TOPIC, _TOPIC_ID, _PARTITION, _OFFSET, _TIMESTAMP, _MESSAGE, _TRACE = (
    f"{PREFIX}{name}" for name in ("topic", "topic-id", "partition", "offset", "timestamp", "message", "trace")
)
# What a record goes back with: where it was read for the first time, and what outputs have of it.
_TAKEN_ALONG = frozenset(
    {
        *(STAGE, INPUT_TOPIC, INPUT_TOPIC_ID, INPUT_PARTITION, INPUT_OFFSET, INPUT_TIMESTAMP, ORIGIN),
        *(DELIVERED, TICK, SHARD, CORRECTED, _TOPIC, _TOPIC_ID, _PARTITION, _OFFSET, _TIMESTAMP),
    }
)
_COMMON = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("kind", "flow", "stage", "version", "generation", "process", "batch", "hash", "topic", "topic-id"),
        *("code", "step", "exception", "output", ORDER),
    )
)
_SPECIAL = frozenset({*CARRIED, CORRECTED, BLOB, f"{PREFIX}stop"})
_NEEDED = {*_COMMON, _PARTITION, _OFFSET, _TIMESTAMP, _MESSAGE} - {f"{PREFIX}output", f"{PREFIX}{ORDER}"}


class ParsedError(NamedTuple):
    """One failure, as its error record has it. Of a stray the record itself is all there is."""

    kind: str
    flow: str
    stage: str
    case_id: str  # if it is a new case
    correlation: str
    attempt: int
    failure: RecordFailure
    fingerprint: Fingerprint
    trace: str  # without the message at its end
    trace_id: str | None
    topic: str
    topic_id: str
    partition: int
    offset: int
    stop: int | None
    hash: str
    output: str | None
    version: str
    process: str
    blob: str | None  # the name of the file that the flow has put a large value into
    headers: str | None  # those that it goes back with, encoded; a gap has none
    record: Record
    key_hash: str | None = None  # where records of its key wait for it

    @property
    def is_mended(self) -> bool:
        """Whether a rule has changed the record before it failed: that is done once."""
        return any(name == CORRECTED for name, _ in self.record.headers)

    @property
    def failed_at(self) -> int:
        """In microseconds."""
        return self.record.timestamp_ms * 1000


def parse_error(record: Record, topic_id: str) -> ParsedError:
    """What a record of an error topic tells. One that no flow has written, or that cannot be read, is a stray."""
    headers = record.headers
    try:
        if headers:
            names, values = zip(*headers, strict=True)
            layout = _layout(names)
            if layout is not None:
                return _first_failure(record, layout, values)
        said = {name: value or b"" for name, value in headers if name.startswith(PREFIX)}
        return _error(record, said, ErrorRecord.read(record))
    except (KeyError, ValueError) as error:
        return read_stray(record, topic_id, f"{type(error).__name__}: {error}")


def read_stray(record: Record, topic_id: str, why: str) -> ParsedError:
    """A record of an error topic that is nobody's failure."""
    failure = RecordFailure(ErrorCode.UNCATEGORISED, NO_STAGE, UNREADABLE, bounded(_storable(why)))
    id = case_id(record.timestamp_ms, STRAY, topic_id, record.partition, record.offset)
    return ParsedError(
        STRAY,
        "",
        NO_STAGE,
        id,
        "",
        1,
        failure,
        Fingerprint.of(failure, STRAY),
        "",
        None,
        record.topic,
        topic_id,
        record.partition,
        record.offset,
        None,
        "",
        None,
        "",
        "",
        None,
        encode_headers(record.headers) or "[]",
        record,
    )


# What fails for the first time
class _Layout(NamedTuple):
    """Where the headers of an error record are, by their places."""

    common: Callable[[Sequence[bytes | None]], tuple[bytes | None, ...]]
    names: tuple[str, ...]  # of what is in common
    partition: int
    offset: int
    timestamp: int
    message: int
    trace: int | None
    own: tuple[int, ...]  # the record's own


class _Common(NamedTuple):
    """What errors of one batch, step and exception have in common."""

    flow: str
    stage: str
    topic: str
    topic_id: str
    hash: str
    output: str | None
    version: str
    process: str
    code: ErrorCode
    step: str
    exception: str
    headers: str  # the beginning of those that it goes back with, encoded
    id: tuple[str, str]  # what ids are made of before and after where the record was read
    order: str | None


@lru_cache(KEPT)
def _layout(names: tuple[str, ...]) -> _Layout | None:
    """None: it is not what fails for the first time, or not all is there."""
    at = {name: place for place, name in enumerate(names) if name.startswith(PREFIX)}
    if not _SPECIAL.isdisjoint(at) or not at.keys() >= _NEEDED:
        return None
    common = tuple(name for name in _COMMON if name in at)
    own = tuple(place for place, name in enumerate(names) if not name.startswith(PREFIX))
    places = itemgetter(*(at[name] for name in common))
    varied = (at[_PARTITION], at[_OFFSET], at[_TIMESTAMP], at[_MESSAGE])
    return _Layout(places, common, *varied, at.get(_TRACE), own)


def _first_failure(record: Record, layout: _Layout, values: Sequence[bytes | None]) -> ParsedError:
    common = _common(layout.names, layout.common(values))
    flow, stage, topic, topic_id, hash, output, version, process, code, step, exception, head, around, order = common
    partition = _bounded(int(values[layout.partition] or b""), _PARTITIONS)
    offset = _bounded(int(values[layout.offset] or b""))
    time = int(values[layout.timestamp] or 0)
    message = bounded(_storable((values[layout.message] or b"").decode()))
    raw = b"" if layout.trace is None else values[layout.trace] or b""
    trace = frames_only(bounded(_storable(raw.decode()), TRACE_CHARACTERS)) if raw else ""
    failure = RecordFailure(code, step, exception, message, trace)
    own = _encoded(tuple([record.headers[place] for place in layout.own])) if layout.own else "["
    rest = f'["{_PARTITION}", "{partition}"], ["{_OFFSET}", "{offset}"], ["{_TIMESTAMP}", "{time}"]]'
    return ParsedError(
        ERROR,
        flow,
        stage,
        case_id_of(time, f"{around[0]}\0{partition}\0{offset}\0{around[1]}"),
        "",
        1,
        failure,
        Fingerprint.of(failure),
        trace,
        trace_id(trace) if trace else None,
        topic,
        topic_id,
        partition,
        offset,
        None,
        hash,
        output,
        version,
        process,
        None,
        f"{own}{head}{rest}",
        record,
        _key_hash(record, order),
    )


@lru_cache(KEPT)
def _encoded(own: Headers) -> str:
    """A record's own headers, encoded, and more to come."""
    return f"{(encode_headers(own) or '[]')[:-1]}, "


@lru_cache(KEPT)
def _common(names: tuple[str, ...], values: tuple[bytes | None, ...]) -> _Common:
    said = {name.removeprefix(PREFIX): (value or b"").decode() for name, value in zip(names, values, strict=True)}
    if said["kind"] != ERROR:
        raise ValueError(f"neither an error nor a gap: {said['kind'][:40]!r}")
    int(said["batch"])
    plain = {name: _plain(said[name]) for name in ("flow", "stage", "topic", "topic-id", "hash", "step", "exception")}
    kept = ((STAGE, said["stage"]), (_TOPIC, said["topic"]), (_TOPIC_ID, said["topic-id"]))
    return _Common(
        plain["flow"],
        plain["stage"],
        plain["topic"],
        plain["topic-id"],
        plain["hash"],
        _plain(said["output"]) if "output" in said else None,
        _plain(said.get("version", "")),
        _plain(said.get("process", "")),
        ErrorCode(int(said["code"])),
        plain["step"],
        plain["exception"],
        "".join(f"{json.dumps(header, ensure_ascii=False)}, " for header in kept),
        (joined(plain["stage"], plain["topic"], plain["topic-id"]), joined(plain["hash"], int(said["generation"]))),
        said.get(ORDER),
    )


# Everything else
def _error(record: Record, said: dict[str, bytes], read: ErrorRecord) -> ParsedError:
    topic, topic_id, partition, offset = _input(said, read)
    stop = None if read.stop is None else _bounded(read.stop)
    if read.kind not in (ERROR, GAP) or (read.kind == GAP) != (stop is not None):
        raise ValueError(f"neither an error nor a gap: {read.kind[:40]!r}")
    failure = _plain_failure(read.failure)
    trace = frames_only(failure.trace)
    # Where it was read in that batch: after a reset one batch may read a record and its return.
    at = (_plain(read.topic), _plain(read.topic_id), read.partition, read.offset)
    return ParsedError(
        read.kind,
        _plain(read.flow),
        _plain(read.stage),
        case_id(_time(said), _plain(read.stage), *at, _plain(read.hash), read.generation),
        read.correlation,
        _bounded(read.attempt, _ATTEMPTS),
        failure,
        Fingerprint.of(failure, read.kind),
        trace,
        trace_id(trace) if trace else None,
        topic,
        topic_id,
        partition,
        offset,
        stop,
        _plain(read.hash),
        None if read.output is None else _plain(read.output),
        _text(said, "version"),
        _text(said, "process"),
        said[BLOB].decode() if BLOB in said else None,
        None if read.kind == GAP else _taken_along(record),
        record,
        _key_hash(record, read.order),
    )


def _input(said: dict[str, bytes], read: ErrorRecord) -> tuple[str, str, int, int]:
    """Where the record was read for the first time: of one that came back, what it came back with."""
    if INPUT_TOPIC_ID not in said:
        return _plain(read.topic), _plain(read.topic_id), _bounded(read.partition, _PARTITIONS), _bounded(read.offset)
    topic, topic_id = said[INPUT_TOPIC].decode(), said[INPUT_TOPIC_ID].decode()
    partition, offset = int(said[INPUT_PARTITION]), int(said[INPUT_OFFSET])
    return _plain(topic), _plain(topic_id), _bounded(partition, _PARTITIONS), _bounded(offset)


def _key_hash(record: Record, order: str | None) -> str | None:
    return hash_of(record.key) if order == BY_KEY and record.key is not None else None


def _time(said: dict[str, bytes]) -> int:
    """Of the record that has failed, so that it is the same however often that is told. A gap has none."""
    return int(said.get(INPUT_TIMESTAMP) or said.get(_TIMESTAMP) or 0)


def _taken_along(record: Record) -> str:
    kept = tuple(each for each in record.headers if not each[0].startswith(PREFIX) or each[0] in _TAKEN_ALONG)
    return encode_headers(kept) or "[]"


def _plain_failure(failure: RecordFailure) -> RecordFailure:
    """As a flow would say it: a header may hold anything."""
    code, step, exception, message, trace = failure
    said = bounded(_storable(message))
    return RecordFailure(code, _plain(step), _plain(exception), said, bounded(_storable(trace), TRACE_CHARACTERS))


def _text(said: dict[str, bytes], name: str) -> str:
    return _plain(said.get(PREFIX + name, b"").decode("utf-8", "replace"))


def _plain(text: str) -> str:
    """What both databases can hold: headers may come from anybody."""
    if len(text) > LONGEST_NAME:
        raise ValueError(f"a name of {len(text)} characters")
    return _storable(text)


def _storable(text: str) -> str:
    return text.replace("\0", "\\0") if "\0" in text else text


def _bounded(number: int, end: int = _OFFSETS) -> int:
    if not 0 <= number < end:
        raise ValueError(f"{number} is not from 0 to {end - 1}")
    return number
