"""What is appended and read: a million records of 200 bytes with keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from towpath.log import NewRecord

RECORDS = 1_000_000
VALUE_BYTES = 200
BATCH = 10_000
PARTITIONS = 4
KEYS = 10_000
TOPIC = "bench"

Batch = list[NewRecord]


def batches(records: int) -> Iterator[Batch]:
    """Batch by batch, each made when it is asked for."""
    for first in range(0, records, BATCH):
        yield [
            NewRecord(b"%0*d" % (VALUE_BYTES, number), b"key-%05d" % (number % KEYS))
            for number in range(first, min(first + BATCH, records))
        ]


def rate(append: Callable[[Batch], object], records: int) -> float:
    """Records per second; only the appending counts, not the making of batches."""
    spent_s = 0.0
    for batch in batches(records):
        started = time.perf_counter()
        append(batch)
        spent_s += time.perf_counter() - started
    return records / spent_s


def reading_rate(found: Iterable[object], records: int) -> float:
    """Records per second of an iterator that must give all of them."""
    started = time.perf_counter()
    count = sum(1 for _ in found)
    spent_s = time.perf_counter() - started
    assert count == records, f"{count} records were read in place of {records}"
    return records / spent_s
