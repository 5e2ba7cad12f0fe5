"""How much goes into one write transaction, and into one read, of a SQLite file.

SQLite has one writer at a time, and a heartbeat or a claim may be waiting behind it: a write stays under 250 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from towpath.errors import BadValue
from towpath.log.record import NewRecord, check_record, plain_bytes

MOST_RECORDS = 10_000
MOST_BYTES = 8 << 20
LITTLE_BYTES = 64 << 10  # may stand beside a single record of whatever size
FEW_RECORDS = 8


@dataclass(slots=True)
class Portion:
    """Room for the records of one write transaction."""

    records: int = 0
    bytes: int = 0

    def fits(self, size: int) -> bool:
        return self.records == 0 or (self.records < MOST_RECORDS and self.bytes + size <= MOST_BYTES)

    def fits_beside(self, size: int) -> bool:
        """Whether it is a large one with hardly anything else, or something small beside a large one."""
        return self.records < min(FEW_RECORDS, MOST_RECORDS) and min(self.bytes, size) <= LITTLE_BYTES

    def add(self, size: int) -> None:
        self.records += 1
        self.bytes += size

    def takes(self, count: int, together: int | None) -> bool:
        """Add many at once if all of them fit; False when they do not, or when their size is unknown."""
        if together is None or self.records + count > MOST_RECORDS or self.bytes + together > MOST_BYTES:
            return False
        self.records += count
        self.bytes += together
        return True


def portions(records: Sequence[NewRecord], max_record_bytes: int) -> Iterator[range]:
    """The places of the batch that go into one transaction each. All are checked before the first is given."""
    if records and Portion().takes(len(records), plain_bytes(records, max_record_bytes)):
        yield range(len(records))
        return
    sizes = [check_record(record, max_record_bytes) for record in records]
    begin, portion = 0, Portion()
    for at, size in enumerate(sizes):
        if not portion.fits(size):
            yield range(begin, at)
            begin, portion = at, Portion()
        portion.add(size)
    if begin < len(records):
        yield range(begin, len(records))


def check_transaction(portion: Portion, records: Sequence[NewRecord], max_record_bytes: int) -> None:
    """Count records into a transaction; `BadValue` when it becomes larger than SQLite should write at once."""
    if portion.takes(len(records), plain_bytes(records, max_record_bytes) if records else 0):
        return
    for record in records:
        size = check_record(record, max_record_bytes)
        if not portion.fits(size) and not portion.fits_beside(size):
            raise BadValue(
                f"one transaction of the SQLite log holds at most {MOST_RECORDS} records and {MOST_BYTES >> 20} MiB; "
                "append in several"
            )
        portion.add(size)
