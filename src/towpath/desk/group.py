"""A group: the cases of one cause."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from towpath.clock import to_datetime
from towpath.db.database import Row
from towpath.desk.archive import Archive
from towpath.desk.case_state import LIVE, CaseState
from towpath.desk.group_state import GroupState


def happened(exception: str, message: str) -> str:
    """What a failure says; a rule that was not met names itself already."""
    return message if exception in message else f"{exception}: {message}"


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its row has it, with how many cases it has in each state, those of groups merged into it included."""

    id: int
    flow: str
    code: int
    step: str
    exception: str
    title: str
    state: GroupState
    archive: Archive | None
    assignee: str | None
    merged_into: int | None
    seen: int  # cases that it has ever been given
    first_at: datetime
    last_at: datetime
    moved_at: datetime
    cases: Counter[CaseState] = field(default_factory=Counter)

    @classmethod
    def from_row(cls, row: Row, cases: Counter[CaseState] | None = None) -> Group:
        values = [*row, Counter() if cases is None else cases]
        values[6] = GroupState(row[6])
        values[7] = None if row[7] is None else Archive.from_json(json.loads(row[7]))
        values[11:14] = map(to_datetime, row[11:14])
        return cls(*values)

    @property
    def headline(self) -> str:
        """What happened in a line, as people are told of it."""
        return happened(self.exception, self.title)

    @property
    def live(self) -> int:
        """How many of its cases are not settled."""
        return sum(self.cases[state] for state in LIVE)


@dataclass(frozen=True, slots=True)
class KnownFingerprint:
    """A fingerprint that leads to a group, and what it was made of."""

    flow: str
    fingerprint: str
    algorithm: int
    group_id: int
    made_of: dict[str, Any]
    made_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> KnownFingerprint:
        values = list(row)
        values[4:] = json.loads(row[4]), to_datetime(row[5])
        return cls(*values)
