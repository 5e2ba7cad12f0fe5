"""A page of records: so many, or fewer when they are large."""

from __future__ import annotations

from itertools import islice

from towpath.log.log import Log
from towpath.log.record import Record

MOST_BYTES = 4_000_000  # of values in one answer


def read_some(log: Log, topic: str, partition: int, first: int, end: int, limit: int) -> list[Record]:
    """From an offset on; at least one, if there is one."""
    found: list[Record] = []
    size = 0
    for record in islice(log.read(topic, partition, first, max(first, end)), limit):
        size += len(record.value or b"") + len(record.key or b"")
        if found and size > MOST_BYTES:
            break
        found.append(record)
    return found
