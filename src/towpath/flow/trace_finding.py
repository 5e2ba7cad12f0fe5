"""Which record is meant: by the id of a document, or by its key."""

from __future__ import annotations

from typing import NamedTuple

from towpath.errors import BadValue
from towpath.flow.trace import Tracer
from towpath.log.log import Log
from towpath.log.record import Record

MOST_FOUND = 20
LARGEST = 2**63 - 1  # offset that a log can hold
Coordinates = tuple[str, int, int, str | None]  # topic, partition, offset, topic id


class WithKey(NamedTuple):
    """The newest records of a key, oldest first."""

    records: list[Record]
    total: int  # those that were found, also those that are not among the newest
    offsets: int | None  # that were read of each partition; None: all


def by_document(tracer: Tracer, id: str) -> Coordinates:
    """Where the record is of which a document was made; raises `BadValue` for an id that does not say so."""
    from towpath.flow.audit.sink_readers import parse_coordinates  # sinks need their own packages

    place = parse_coordinates(id)
    if place is None:
        raise BadValue(f"{id!r} is not made from a record's place (topic:incarnation:partition:offset)")
    topic, incarnation, number, offset, _ = place
    if max(number, offset) > LARGEST:
        raise BadValue(f"{id!r} names a place that no topic has")
    return topic, number, offset, tracer.topic_id(topic, incarnation)


def by_key(log: Log, topic: str, key: bytes, most: int) -> WithKey:
    """Nothing says where they are, so the topic is read: the last offsets of it, `most` in all."""
    starts, ends = log.starts(topic), log.ends(topic)
    share = max(1, most // max(1, len(ends)))
    first = {number: max(starts.get(number, 0), end - share) for number, end in ends.items()}
    found = [
        each for number, end in ends.items() for each in log.read(topic, number, first[number], end) if each.key == key
    ]
    found.sort(key=lambda each: each.timestamp_ms)
    is_cut = any(first[number] > starts.get(number, 0) for number in ends)
    return WithKey(found[-MOST_FOUND:], len(found), share if is_cut else None)
