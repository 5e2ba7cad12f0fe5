"""A group: the cases of one cause. Its states, until when it is archived, and the fingerprints that lead to it. Pure.

docs/reference/desk-states.md is held equal to the states and moves here. Errors are of one cause when they have the
same code, step, exception, message without its particulars, and frames. The algorithm has a number, which is part of
the fingerprint. A changed one gets a new number, so that present cases stay where they are and only errors that come
later may go to new groups.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Self

from towpath.core.clock import MICROS, to_datetime
from towpath.db.database import Row
from towpath.desk.cases.model import LIVE, CaseState
from towpath.errors import BadValue
from towpath.flow.failures import RecordFailure, without_particulars

ALGORITHM = 1
MOST_FRAMES = 5  # the innermost of the application
DIGITS = 32
KEPT = 4096  # results that are remembered, since errors of one cause come together
_FRAME = re.compile(r'^  File "([^"\n]*)", line \d+, in (.+)$', re.MULTILINE)
_LINE = '  File "'
# Not the application's: what is installed, Python's own, and what Python makes up.
_FOREIGN = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3?[.\d]*|pyspark|src[/\\]towpath)[/\\]|^<")


class GroupState(StrEnum):
    """What people think of a cause."""

    NEW = "new"  # nobody has looked at it
    ONGOING = "ongoing"  # known, and not done with
    RESOLVED = "resolved"  # done with; an error that comes now brings it back
    ARCHIVED = "archived"  # nobody wants to hear of it until so many more, a time, or a rate
    REGRESSED = "regressed"  # was done with or archived, and came back


_S = GroupState
MOVES: Mapping[GroupState, frozenset[GroupState]] = {
    _S.NEW: frozenset({_S.ONGOING, _S.RESOLVED, _S.ARCHIVED}),
    _S.ONGOING: frozenset({_S.RESOLVED, _S.ARCHIVED}),
    _S.RESOLVED: frozenset({_S.ARCHIVED, _S.REGRESSED}),
    _S.ARCHIVED: frozenset({_S.RESOLVED, _S.REGRESSED}),
    _S.REGRESSED: frozenset({_S.ONGOING, _S.RESOLVED, _S.ARCHIVED}),
}


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
class Archive:
    """Until when a group is archived: one of the three, or for ever. The last two count cases of the present period."""

    more: int | None = None  # cases that may come before it is back
    until_us: int | None = None  # what comes at this time or later brings it back
    rate: int | None = None  # so many cases within `per_s` bring it back
    per_s: float | None = None
    since_us: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.more, self.until_us, self.rate)) > 1:
            raise BadValue("a group is archived until so many more cases, or a time, or a rate: one of them")
        if (self.rate is None) != (self.per_s is None):
            raise BadValue("a rate is a number of cases and a number of seconds")
        if any(each is not None and each <= 0 for each in (self.more, self.rate, self.per_s)):
            raise BadValue("until when a group is archived is said in numbers above 0")

    def after(self, cases: int, now_us: int) -> Self | None:
        """What it is when so many cases have come; None: the group is back."""
        if self.more is not None:
            return replace(self, more=self.more - cases) if cases < self.more else None
        if self.until_us is not None:
            return self if now_us < self.until_us else None
        if self.rate is not None and self.per_s is not None:
            is_over = now_us - self.since_us >= self.per_s * MICROS
            count = cases if is_over else self.count + cases
            since = now_us if is_over else self.since_us
            return replace(self, since_us=since, count=count) if count < self.rate else None
        return self

    def to_json(self) -> dict[str, Any]:
        said = {"more": self.more, "until_us": self.until_us, "rate": self.rate, "per_s": self.per_s}
        counted = {"since_us": self.since_us, "count": self.count} if self.rate is not None else {}
        return {name: value for name, value in said.items() if value is not None} | counted

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


def happened(exception: str, message: str) -> str:
    """What a failure says; a rule that was not met names itself already."""
    return message if exception in message else f"{exception}: {message}"


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


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What failures of one cause have in common. The text is what counts; the rest says what it was made of."""

    text: str
    code: int
    step: str
    exception: str
    title: str
    frames: tuple[str, ...] = ()
    algorithm: int = ALGORITHM
    made_of: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)

    @classmethod
    def of(cls, failure: RecordFailure, kind: str = "error") -> Fingerprint:
        """The fingerprint of a failure. A trace that ends with its message costs more, and gives the same."""
        said = without_particulars(failure.message)
        frames = frames_of(failure.trace) if failure.trace else ()
        return _fingerprint(kind, int(failure.code), failure.step, failure.exception, said, frames)


@lru_cache(KEPT)
def _fingerprint(kind: str, code: int, step: str, exception: str, said: str, frames: tuple[str, ...]) -> Fingerprint:
    made_of = {
        "algorithm": ALGORITHM,
        "kind": kind,
        "code": code,
        "step": step,
        "exception": exception,
        "message": said,
        "frames": list(frames),
    }
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:DIGITS]
    return Fingerprint(f"{ALGORITHM}:{digest}", code, step, exception, said or exception, frames, ALGORITHM, made_of)


def frames_only(trace: str) -> str:
    """A trace up to its last frame: the message at its end differs from record to record."""
    last = trace.rfind(_LINE)
    if last < 0:
        return ""
    end = trace.find("\n", last)
    while end >= 0 and trace.startswith("    ", end + 1):  # the line of code, and marks under it
        end = trace.find("\n", end + 1)
    return trace if end < 0 else trace[:end]


@lru_cache(KEPT)
def frames_of(trace: str) -> tuple[str, ...]:
    """`orders.py:price` for each frame of the application, without lines: those move when the file is edited."""
    own = (f"{PurePath(file).name}:{function}" for file, function in _FRAME.findall(trace) if not _FOREIGN.search(file))
    return tuple(own)[-MOST_FRAMES:]


@lru_cache(KEPT)
def trace_id(trace: str) -> str:
    """The id of a trace: equal for equal texts."""
    return hashlib.sha256(trace.encode("utf-8", "replace")).hexdigest()[:DIGITS]
