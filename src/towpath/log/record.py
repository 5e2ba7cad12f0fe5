"""Records: what is appended to a topic and what is read from it.

Also what every log shares about records: checks, headers as text for a database column (readable where they are text,
exact where they are not), and the partition of a key, which is the one that Kafka's Java clients choose.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

import orjson

from towpath.errors import BadRecord, BadValue, UnknownPartition

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]
Position = tuple[int, int]  # partition and offset: where a record was put
NEWEST_TIMESTAMP_MS = 253_402_300_799_999  # the last millisecond of the year 9999: what every reader can show
# Brokers count a few bytes of their own for a record and for each of its headers.
RECORD_OVERHEAD = 64
HEADER_OVERHEAD = 8
_NUL = "\\u0000"  # as JSON has it; SQLite's text functions end at a NUL
# Of MurmurHash2, with the seed that Kafka takes.
_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_REMEMBERED_KEYS = 65_536  # whose partitions are not worked out again


class NewRecord(NamedTuple):
    """A record to be appended. Keys and values are bytes; a value of None is a tombstone.

    Without a `partition` the key decides it, as Kafka's Java clients do; without a key records go round.
    Without a `timestamp_ms` the log takes its own time.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class Record(NamedTuple):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def check_records(records: Sequence[NewRecord], max_bytes: int) -> None:
    """Raise `BadRecord` when a topic could not hold one of them."""
    if records and plain_bytes(records, max_bytes) is None:
        for record in records:
            check_record(record, max_bytes)


def check_record(record: NewRecord, max_bytes: int) -> int:
    """The size of the record; raises `BadRecord` when no topic could hold it."""
    size = RECORD_OVERHEAD
    for name, part in (("key", record.key), ("value", record.value)):
        if part is not None:
            if not isinstance(part, bytes):
                raise BadRecord(f"the {name} of a record is bytes or None, not {type(part).__name__}")
            size += len(part)
    if record.headers:
        size += _check_headers(record.headers)
    if record.timestamp_ms is not None:
        _check_timestamp(record.timestamp_ms)
    if size > max_bytes:
        raise BadRecord(
            f"a record of {size} bytes is larger than log.max_record_bytes ({max_bytes})", is_too_large=True
        )
    return size


def check_partitions(topic: str, records: Sequence[NewRecord], partitions: int) -> None:
    """Raise `UnknownPartition` when one of them names a partition that the topic does not have."""
    for number in {record.partition for record in records} - {None}:
        if number is not None and (type(number) is not int or not 0 <= number < partitions):
            raise UnknownPartition(topic, number, partitions)


def check_time(timestamp_ms: int) -> None:
    """Raise `BadValue` when a reader asks for a time that no record can have."""
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= NEWEST_TIMESTAMP_MS:
        raise BadValue(f"a time is milliseconds since 1970, before the year 10000, not {timestamp_ms!r}")


def plain_bytes(records: Sequence[NewRecord], max_bytes: int) -> int | None:
    """The size of all together; None when one of them needs a closer look.

    A quick look, column by column, for large batches: none of them is too large if the longest of each would fit.
    """
    values, keys, headers, times, _ = zip(*records, strict=True)
    if not {*map(type, values), *map(type, keys)} <= {bytes, NoneType} or not _are_plain_times(times):
        return None
    in_headers = _header_bytes(headers) if any(headers) else (0, 0)
    if in_headers is None:
        return None
    most, together = in_headers
    room = max_bytes - RECORD_OVERHEAD - most
    # Where all of them together fit into one record, each one does. Joining is quicker than asking each for its length.
    in_bodies = len(b"".join(filter(None, values))) + len(b"".join(filter(None, keys)))
    if in_bodies > room and _longest(values) + _longest(keys) > room:
        return None
    return in_bodies + together + RECORD_OVERHEAD * len(records)


def encode_headers(headers: Headers) -> str | None:
    """`[["type","click"],["signature",{"base64":"…"}],["nothing",null]]`, or None when there are none."""
    if not headers:
        return None
    try:
        text = orjson.dumps([(name, value.decode()) for name, value in headers]).decode()  # type: ignore[union-attr]
        if _NUL not in text:
            return text
    except (UnicodeDecodeError, AttributeError):
        pass  # not text, or none at all
    return orjson.dumps([(name, _encode(value)) for name, value in headers]).decode()


def decode_headers(text: str | None) -> Headers:
    if text is None:
        return ()
    pairs: list[tuple[str, Any]] = orjson.loads(text)
    try:
        return tuple([(name, value.encode()) for name, value in pairs])
    except AttributeError:
        return tuple([(name, _decode(value)) for name, value in pairs])


@lru_cache(_REMEMBERED_KEYS)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition that a key belongs to, of a topic with this many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with Kafka's seed."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        k ^= k >> 24
        h = (h * _MULTIPLIER & _MASK) ^ (k * _MULTIPLIER & _MASK)
    if whole < length:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _MULTIPLIER & _MASK
    h ^= h >> 13
    h = h * _MULTIPLIER & _MASK
    return h ^ h >> 15


def _check_headers(headers: Headers) -> int:
    size = 0
    try:
        for name, value in headers:
            if not name or not name.isascii() or not name.isprintable():
                raise BadRecord(f"the name of a header is printable ASCII text, not {name!r}")
            if value is not None and not isinstance(value, bytes):
                raise BadRecord(f"the value of header {name!r} is bytes or None, not {type(value).__name__}")
            size += HEADER_OVERHEAD + len(name) + len(value or b"")
    except (TypeError, ValueError) as error:
        raise BadRecord("the headers of a record are pairs of name and bytes") from error
    return size


def _check_timestamp(timestamp_ms: int) -> None:
    # Kafka's client takes 0 for "now".
    if type(timestamp_ms) is not int or not 1 <= timestamp_ms <= NEWEST_TIMESTAMP_MS:
        raise BadRecord(f"the time of a record is 1 ms after 1970 at least, and before 10000, not {timestamp_ms!r} ms")


def _header_bytes(headers: Sequence[Headers]) -> tuple[int, int] | None:
    """More bytes of headers than any record has, and how many all have; None when one of them needs a closer look."""
    try:
        pairs = list(chain.from_iterable(headers))
        if {*map(len, pairs)} != {2}:
            return None
        names, contents = list(map(itemgetter(0), pairs)), list(map(itemgetter(1), pairs))
    except (TypeError, LookupError):
        return None
    if {*map(type, names)} != {str} or not {*map(type, contents)} <= {bytes, NoneType}:
        return None
    if not all(name and name.isascii() and name.isprintable() for name in {*names}):
        return None
    longest = max(map(len, names)) + _longest(contents)
    together = HEADER_OVERHEAD * len(pairs) + len("".join(names)) + len(b"".join(filter(None, contents)))
    return max(map(len, headers)) * (HEADER_OVERHEAD + longest), together


def _longest(parts: Iterable[bytes | None]) -> int:
    return max(map(len, filter(None, parts)), default=0)


def _are_plain_times(times: Sequence[int | None]) -> bool:
    given = {*times} - {None}
    return {*map(type, given)} <= {int} and all(1 <= each <= NEWEST_TIMESTAMP_MS for each in given if each is not None)


def _encode(value: bytes | None) -> Any:
    if value is None:
        return None
    with suppress(UnicodeDecodeError):
        text = value.decode()
        if "\0" not in text:
            return text
    return {"base64": base64.b64encode(value).decode()}


def _decode(value: Any) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
