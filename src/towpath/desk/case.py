"""A case: one record that has failed, or one gap, from the first failure until it is settled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from towpath.clock import to_datetime
from towpath.db.database import Row
from towpath.desk.case_state import CaseState
from towpath.log.headers import decode_headers
from towpath.log.record import Headers

ERROR, GAP, STRAY = "error", "gap", "stray"  # kinds


@dataclass(frozen=True, slots=True)
class Case:
    """A case as its row has it, in the order of the columns."""

    seq: int
    id: str  # also the correlation id under which its record goes back
    flow: str
    stage: str
    kind: str
    group_id: int
    fingerprint: str
    state: CaseState
    code: int
    step: str
    exception: str
    message: str
    output: str | None
    topic: str  # where the stage has read the record for the first time
    topic_id: str
    partition: int
    offset: int
    stop: int | None  # of a gap: the offset after its last
    key: bytes | None
    key_hash: str | None  # only where records of one key keep their order
    hash: str
    error_topic: str  # where the last error record lies
    error_partition: int
    error_offset: int
    attempts: int  # failures so far
    give_backs: int
    ticket: int
    lane: int | None
    due_at: datetime | None
    behind: str | None
    assignee: str | None
    rule: str | None
    edit: int
    body_bytes: int
    first_failed_at: datetime
    failed_at: datetime
    taken_at: datetime
    moved_at: datetime
    settled_at: datetime | None
    settled_by: str | None
    settled_why: str | None

    @classmethod
    def from_row(cls, row: Row) -> Case:
        values = list(row)
        values[7] = CaseState(row[7])
        values[28], values[38] = _time(row[28]), _time(row[38])
        values[34:38] = map(to_datetime, row[34:38])
        return cls(*values)

    @property
    def input(self) -> str:
        """`orders/3/17`: where its record was read for the first time."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def next_attempt(self) -> int:
        """The number of the try that comes when it is sent back now."""
        return self.attempts + 1


class NewCase(NamedTuple):
    """A case that is not in the table yet. A tuple, since they come by the thousand; times are in microseconds."""

    id: str
    flow: str
    stage: str
    kind: str
    group_id: int
    fingerprint: str
    state: CaseState
    code: int
    step: str
    exception: str
    message: str
    output: str | None
    topic: str
    topic_id: str
    partition: int
    offset: int
    stop: int | None
    key: bytes | None
    hash: str
    error_topic: str
    error_partition: int
    error_offset: int
    failed_at: int
    body_bytes: int
    value: bytes | None = None
    blob: str | None = None
    headers: str | None = None  # as `encode_headers` gives them
    trace_id: str | None = None
    version: str = ""
    process: str = ""
    key_hash: str | None = None
    ticket: int = 0
    lane: int | None = None
    due_at: int | None = None
    behind: str | None = None
    rule: str | None = None
    edit: int = 0
    settled_by: str | None = None  # of one that a rule ignores: who has approved it
    settled_why: str | None = None


class Body(NamedTuple):
    """What goes back into the flow: the record's own value, or that of the edit which the case is set to."""

    value: bytes | None
    blob: str | None  # the name of a file that has the value, when it is too large for a row
    headers: Headers
    edit: int = 0

    @classmethod
    def from_row(cls, row: Row) -> Body:
        value, blob, headers, edit = row
        return cls(value, blob, decode_headers(headers), edit)


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)
