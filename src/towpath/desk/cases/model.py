"""A case: one record that failed, or one gap, from its first failure until it is settled.

Here are the states and moves (docs/reference/desk-states.md is held equal to them), the rows of cases, failures and
bodies, the ids, and `CaseSelection`, which says which cases a list or a bulk job is about. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from towpath.core.clock import to_datetime
from towpath.db.database import Row
from towpath.errors import BadValue
from towpath.log.record import Headers, decode_headers

_LARGEST_MS = (1 << 48) - 1

ERROR, GAP, STRAY = "error", "gap", "stray"  # kinds

_TIMES = ("since", "until")


class CaseState(StrEnum):
    """Where a record that has failed is."""

    WAITING = "waiting"  # in a lane, to be tried again when it is due
    PARKED = "parked"  # behind another record of its key
    OPEN = "open"  # in front of a person
    REPLAYING = "replaying"  # sent back into the flow; what became of it is not known yet
    IGNORED = "ignored"  # dismissed by a rule that a person has approved
    RESOLVED = "resolved"  # loaded, or left out by a step, after it was sent back
    ABANDONED = "abandoned"  # dismissed by a person
    RESENT = "resent"  # sent to the source again, where it counts as a new record

    @property
    def is_settled(self) -> bool:
        """Whether it has left the desk for good."""
        return not MOVES[self]


_S = CaseState
MOVES: Mapping[CaseState, frozenset[CaseState]] = {
    _S.WAITING: frozenset({_S.REPLAYING, _S.OPEN, _S.RESENT, _S.ABANDONED}),
    _S.PARKED: frozenset({_S.REPLAYING, _S.OPEN, _S.ABANDONED}),
    _S.OPEN: frozenset({_S.WAITING, _S.REPLAYING, _S.RESENT, _S.ABANDONED}),
    _S.REPLAYING: frozenset({_S.RESOLVED, _S.WAITING, _S.OPEN, _S.IGNORED, _S.RESENT}),
    _S.IGNORED: frozenset({_S.OPEN, _S.ABANDONED}),
    _S.RESOLVED: frozenset(),
    _S.ABANDONED: frozenset(),
    _S.RESENT: frozenset(),
}
FIRST = frozenset({_S.WAITING, _S.PARKED, _S.OPEN, _S.REPLAYING, _S.IGNORED})  # in which a case may begin
LIVE = frozenset(state for state, targets in MOVES.items() if targets)


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

    def read(self, blob: Callable[[str], bytes]) -> bytes | None:
        """The bytes, wherever they are; `blob` reads a file by its name, and raises `OSError` when that is gone."""
        return self.value if self.blob is None else blob(self.blob)


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


class NewAttempt(NamedTuple):
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
class CaseSelection:
    """All that is given must hold; what is None does not count. One without anything means all cases."""

    flow: str | None = None
    stage: str | None = None
    step: str | None = None
    code: int | None = None
    exception: str | None = None
    group: int | None = None
    fingerprint: str | None = None
    states: tuple[CaseState, ...] | None = None
    assignee: str | None = None
    text: str | None = None  # somewhere in the message of the last failure
    body: str | None = None  # somewhere in the body that goes out next
    since: datetime | None = None  # failed last at this time or later
    until: datetime | None = None  # failed last before this time
    ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in _TIMES:
            time = getattr(self, name)
            if time is not None and time.tzinfo is None:
                raise BadValue(f"{name}: a time needs its zone")
        if self.text == "" or self.body == "":
            raise BadValue("an empty text is found everywhere: leave it away")

    def within(self, **narrower: Any) -> CaseSelection:
        """The selection with more conditions."""
        return replace(self, **narrower)

    def to_json(self) -> dict[str, Any]:
        """What is given, as JSON has it."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _plain(value) for name, value in given.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CaseSelection:
        """Raises `BadValue` for what no selection has."""
        unknown = sorted(set(data) - {field.name for field in fields(cls)})
        if unknown:
            raise BadValue(f"cases cannot be selected by {unknown[0]!r}")
        return cls(**{name: _read(name, value) for name, value in data.items()})


def has_hidden_search(selection: CaseSelection) -> bool:
    """Whether it looks into bodies or messages, where hidden fields are."""
    return selection.body is not None or selection.text is not None


def matches(selection: CaseSelection, message: str, value: bytes | None) -> bool:
    """Whether what is left after hiding still has what was searched for."""
    if selection.text is not None and selection.text not in message:
        return False
    return selection.body is None or (value is not None and selection.body.encode() in value)


def case_id(timestamp_ms: int, *parts: object) -> str:
    """48 bits of the record's time, then bits of a hash of what makes the failure that one: laid out as a UUID.

    For an error: the stage, the hash of the batch, and where that has read the record. A batch that is cut off after it
    has told its errors tells them again, under the same hash.
    """
    return case_id_of(timestamp_ms, joined(*parts))


def case_id_of(timestamp_ms: int, parts: str) -> str:
    """The id for parts that are joined already: many ids have most parts in common."""
    digest = hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()
    time = f"{min(max(timestamp_ms, 0), _LARGEST_MS):012x}"
    variant = "89ab"[int(digest[3], 16) & 3]
    return f"{time[:8]}-{time[8:]}-8{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"


def joined(*parts: object) -> str:
    """The parts as one text, which is a part itself of a longer one."""
    return "\0".join(map(str, parts))


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return list(value) if isinstance(value, tuple) else value


def _read(name: str, value: Any) -> Any:
    try:
        if value is None:
            return None
        if name in _TIMES:
            return datetime.fromisoformat(value)
        if name == "states":
            return tuple(CaseState(state) for state in value)
        return tuple(value) if name == "ids" else value
    except (TypeError, ValueError) as error:
        raise BadValue(f"{name}: {value!r} is not what cases can be selected by") from error
