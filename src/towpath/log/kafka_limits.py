"""Records for a topic that takes less at once than the client would send, because somebody else has made it.

A broker looks at batches: it refuses records together with one that is too large, and small ones because together they
are. In a transaction that undoes everything, so here the batches are made small enough before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from towpath.errors import BadRecord
from towpath.log.kafka_client import BATCH_OVERHEAD
from towpath.log.record import NewRecord
from towpath.settings import LogSettings

BATCH_SIZE = 1_000_000  # the client's own, which it takes for a batch unless told otherwise
BATCH_HEADER = 61
LEAST_OVERHEAD = 7  # of a record in its batch
MOST_OVERHEAD = 32
HEADER_OVERHEAD = 6
SLACK = 4_096


def batches_for(
    topic: str, limit: int, records: Sequence[NewRecord], settings: LogSettings
) -> Iterator[Sequence[NewRecord]]:
    """The records as they may travel together; `BadRecord` when one is too large in any case.

    Whether one that is larger by some bytes only is too large, the broker knows alone.
    """
    if limit >= settings.max_record_bytes + BATCH_OVERHEAD:
        yield records
        return
    tight = is_tight(limit, settings)
    if not tight and _are_small(limit, records):
        yield records
        return
    may_shrink = "compression.type" in settings.client or "compression.codec" in settings.client
    sizes = [_size(record) for record in records]
    for size in sizes:
        if not may_shrink and size + BATCH_HEADER + LEAST_OVERHEAD > limit:
            raise BadRecord(
                f"a record of {size} bytes is larger than {topic} takes (max.message.bytes={limit})", is_too_large=True
            )
    if not tight:
        yield records
        return
    begin, together = 0, BATCH_HEADER
    for at, (record, size) in enumerate(zip(records, sizes, strict=True)):
        most = size + MOST_OVERHEAD + HEADER_OVERHEAD * len(record.headers)
        if together + most > limit and at > begin:
            yield records[begin:at]
            begin, together = at, BATCH_HEADER
        together += most
    yield records[begin:]


def is_tight(limit: int, settings: LogSettings) -> bool:
    """Whether the client, left to itself, might send more at once than the topic takes."""
    batch_size = int(settings.client.get("batch.size", BATCH_SIZE))
    return limit < min(batch_size + SLACK, settings.max_record_bytes + BATCH_OVERHEAD)


def _are_small(limit: int, records: Sequence[NewRecord]) -> bool:
    """Whether nothing needs a closer look: quickly, for large batches of small records."""
    longest = max((len(record.value or b"") for record in records), default=0)
    return longest + BATCH_OVERHEAD <= limit


def _size(record: NewRecord) -> int:
    """The bytes that are its own."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
