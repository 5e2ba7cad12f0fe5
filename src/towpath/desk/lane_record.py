"""What lies in a lane: a record on its way back to its stage, with the time at which it is due and its ticket."""

from __future__ import annotations

import zlib
from typing import NamedTuple, Self

from towpath.flow.error_record import PREFIX
from towpath.flow.reentry_record import ATTEMPT, CORRELATION, TICKET
from towpath.log.record import NewRecord, Record

DUE = f"{PREFIX}due"  # microseconds since 1970, by the database's clock


def lane_record(record: NewRecord, lane: int, due_at: int) -> NewRecord:
    """A record, with its ticket, that is to wait in a lane before it goes back."""
    return record._replace(headers=(*record.headers, (DUE, str(due_at).encode())), partition=lane)


class Waiting(NamedTuple):
    """A record of a lane, read back."""

    offset: int
    case_id: str
    attempt: int
    ticket: int
    due_at: int
    spread: float  # from 0 to below 1: its share of the jitter, always the same for the same try
    record: Record

    @classmethod
    def read(cls, record: Record) -> Self:
        """Raises `KeyError` or `ValueError` when it is no record of a lane."""
        said = {name: (value or b"").decode() for name, value in record.headers if name.startswith(PREFIX)}
        case_id, attempt = said[CORRELATION], int(said[ATTEMPT])
        spread = zlib.crc32(f"{case_id}/{attempt}".encode()) / (1 << 32)
        return cls(record.offset, case_id, attempt, int(said[TICKET]), int(said[DUE]), spread, record)

    @property
    def bytes(self) -> int:
        return len(self.record.value or b"") + len(self.record.key or b"") + 1000

    def released(self) -> NewRecord:
        """As it goes on to the re-entry topic, where its key decides the partition."""
        headers = tuple(header for header in self.record.headers if header[0] != DUE)
        return NewRecord(self.record.value, self.record.key, headers)
