"""A bulk job and its items, as they were read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from towpath.clock import to_datetime
from towpath.db.database import Row
from towpath.desk.case_state import CaseState
from towpath.desk.job_state import ItemState, JobKind, JobState
from towpath.desk.selection import Selection

_STATES = {state.value: state for state in CaseState}


@dataclass(frozen=True, slots=True)
class Job:
    """One thing done to many cases, by one person, for one reason."""

    seq: int
    id: str
    name: str
    kind: JobKind
    state: JobState
    selection: Selection
    arguments: Mapping[str, Any]
    rate_s: float | None  # most cases a second; None: as fast as it goes
    who: str
    why: str
    cases: int  # as counted; once it runs, how many items there are
    done: int
    refused: int
    reason: str | None
    made_at: datetime
    begun_at: datetime | None  # all items are written down, the first portion is next
    ended_at: datetime | None
    worked_to: int = 0  # the number of the last item that has its outcome

    @property
    def left(self) -> int:
        """How many items have no outcome yet."""
        return max(self.cases - self.done - self.refused, 0)

    @classmethod
    def from_row(cls, row: Row) -> Job:
        seq, id, name, kind, state, selection, arguments, rate_s, who, why, cases, done, refused, reason, *rest = row
        *times, worked_to = rest
        made_at, begun_at, ended_at = (None if time is None else to_datetime(time) for time in times)
        assert made_at is not None  # noqa: S101 - a constraint of the table
        return cls(
            seq,
            id,
            name,
            JobKind(kind),
            JobState(state),
            Selection.from_json(json.loads(selection)),
            json.loads(arguments),
            rate_s,
            who,
            why,
            cases,
            done,
            refused,
            reason,
            made_at,
            begun_at,
            ended_at,
            worked_to,
        )


class Brief(NamedTuple):
    """As much of a case as it takes to do something to it: jobs have thousands of them."""

    id: str
    state: CaseState
    flow: str
    stage: str
    kind: str
    topic: str
    group_id: int


class Due(NamedTuple):
    """An item whose turn has come, with its case, unless that is gone."""

    number: int
    case_id: str
    case: Brief | None

    @classmethod
    def from_row(cls, row: Row) -> Due:
        number, id, state, *rest = row
        return cls(number, id, None if state is None else Brief(id, _STATES[state], *rest))


class Item(NamedTuple):
    """One case in a job. Its number is the number of its case, so that the oldest come first."""

    number: int
    case_id: str
    state: ItemState
    said: str | None = None
    done_at: datetime | None = None

    @classmethod
    def from_row(cls, row: Row) -> Item:
        number, case_id, state, said, done_at = row
        return cls(number, case_id, ItemState(state), said, None if done_at is None else to_datetime(done_at))
