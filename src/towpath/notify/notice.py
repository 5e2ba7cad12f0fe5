"""Something that people should hear of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from towpath.clock import to_datetime
from towpath.db.database import Row, Transaction
from towpath.events import EventKind


class NoticeKind(StrEnum):
    """What people are told of. Each is also an event of the same name."""

    GROUP_FOUND = "group_found"  # errors of a kind that was not there before
    GROUP_REGRESSED = "group_regressed"  # a group was resolved or archived, and errors come again
    LANE_STUCK = "lane_stuck"  # what is due is not released
    DESK_GROWING = "desk_growing"  # many cases have been opened in a short time
    DUTY_FAILED = "duty_failed"  # a process has died too often before it was ready, and is not started again

    @property
    def event(self) -> EventKind:
        return EventKind(self.value)


class NoticeState(StrEnum):
    """How far a notice is. docs/reference/access-states.md is held equal to this."""

    WAITING = "waiting"  # it is collected with others until the window ends
    HANDED = "handed"  # it is in the queue, for each target that wants it


MOVES: Mapping[NoticeState, frozenset[NoticeState]] = {
    NoticeState.WAITING: frozenset({NoticeState.HANDED}),
    NoticeState.HANDED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened, to what, in a line that people read; the same of the same subject is told once for a while."""

    kind: NoticeKind
    subject: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Teller(Protocol):
    """To whom parts say what people should hear of."""

    def tell(self, tx: Transaction, notice: Notice) -> None:
        """Say it, in the transaction in which it was found; it counts when that commits."""


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A notice as its row has it."""

    seq: int
    kind: NoticeKind
    subject: str
    title: str
    data: dict[str, Any]
    times: int
    state: NoticeState
    at: datetime
    last_at: datetime
    handed_at: datetime | None

    @classmethod
    def from_row(cls, row: Row) -> StoredNotice:
        seq, kind, subject, title, data, times, state, at, last_at, handed_at = row
        return cls(
            seq,
            NoticeKind(kind),
            subject,
            title,
            json.loads(data),
            times,
            NoticeState(state),
            to_datetime(at),
            to_datetime(last_at),
            None if handed_at is None else to_datetime(handed_at),
        )
