"""A lane: one partition of a flow's lane topic, in which what is to be tried again waits for the same time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from towpath.clock import to_datetime
from towpath.db.database import Row

SUFFIX = ".lanes"


def lane_topic(flow: str) -> str:
    """The topic in which a flow's lanes are."""
    return f"{flow}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Beyond:
    """Which records at or above the safe position were released: before and after the last release of a lane."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Self:
        stored = json.loads(text)
        return cls(tuple(stored["before"]), tuple(stored["after"]))

    def to_json(self) -> str:
        return json.dumps({"before": self.before, "after": self.after})


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as its row has it."""

    flow: str
    partition: int
    delay_ms: int
    jitter_ms: int
    is_paused: bool
    hurried_to: int  # microseconds: what is due before this time counts as due now
    owner: str | None
    wanted_by: str | None
    position: int  # the safe position after its last release
    release: int  # its number
    beyond: Beyond = field(default_factory=Beyond)
    made_at: datetime | None = None

    @property
    def name(self) -> str:
        return f"{self.flow}/{self.partition}"

    @property
    def topic(self) -> str:
        return lane_topic(self.flow)

    @classmethod
    def from_row(cls, row: Row) -> Self:
        flow, partition, delay_ms, jitter_ms, is_paused, hurried_to, owner, wanted_by, position, release = row[:10]
        return cls(
            flow,
            partition,
            delay_ms,
            jitter_ms,
            bool(is_paused),
            hurried_to,
            owner,
            wanted_by,
            position,
            release,
            Beyond.from_json(row[10]),
            to_datetime(row[11]),
        )


def nearest(lanes: Sequence[Lane], delay_ms: int) -> Lane:
    """The lane in which a wait of that length fits best: the shortest of those that are not shorter, or the longest."""
    longer = [lane for lane in lanes if lane.delay_ms >= delay_ms]
    return min(longer, key=lambda lane: lane.delay_ms) if longer else max(lanes, key=lambda lane: lane.delay_ms)
