"""One failure of a case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from towpath.clock import to_datetime
from towpath.db.database import Row


class Attempt(NamedTuple):
    """A failure of a known case that is not in the table yet; the time is in microseconds."""

    case_id: str
    attempt: int
    group_id: int
    fingerprint: str
    code: int
    step: str
    exception: str
    message: str
    output: str | None
    trace_id: str | None
    hash: str
    version: str
    process: str
    error_topic: str
    error_partition: int
    error_offset: int
    failed_at: int

    @property
    def row(self) -> tuple[Any, ...]:
        """As a row of attempts."""
        return (*self[:2], *self[4:8], self.hash, *self[13:], self.trace_id, self.version, self.process)

    @property
    def failure(self) -> tuple[Any, ...]:
        """What its case is to say of its last failure."""
        return (self.case_id, *self[2:9], *self[13:])


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """A failure as its row has it, with its trace."""

    attempt: int
    code: int
    step: str
    exception: str
    message: str
    trace: str
    hash: str
    version: str
    process: str
    error_topic: str
    error_partition: int
    error_offset: int
    failed_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> PastAttempt:
        values = [*row[:-1], to_datetime(row[-1])]
        return cls(*values)
