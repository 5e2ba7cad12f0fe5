"""Which records of a lane are released now, and up to where the lane is done. Pure: records and time are given.

*Strict*: in the order in which they lie, up to the first that is not due. *All due*: every one that is due; the safe
position is that of the first which was passed over, and what was released beyond it is remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Order = Literal["strict", "all-due"]


class Due(Protocol):
    """What is asked of a record."""

    @property
    def offset(self) -> int: ...
    @property
    def due_at(self) -> int: ...
    @property
    def spread(self) -> float: ...
    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """By what it is decided: the time, in microseconds, and how the lane is set."""

    now: int
    order: Order = "strict"
    jitter_us: int = 0
    hurried_to: int = 0  # what is due before this counts as due now
    most: int = 1_000
    most_bytes: int = 4 << 20

    def release_at(self, record: Due) -> int:
        """When a record goes: when it is due, or somewhat later, never sooner; at once when it was hurried."""
        if record.due_at < self.hurried_to:
            return 0
        return record.due_at + int(record.spread * self.jitter_us)


@dataclass(frozen=True, slots=True)
class Choice:
    """Places in the given records of those that go now; and when the next will go, if nothing else happens."""

    taken: tuple[int, ...]
    next_at: int | None


def choose(records: Sequence[Due], terms: Terms) -> Choice:
    """Which of the records, in the order in which they lie."""
    taken: list[int] = []
    next_at: int | None = None
    room = terms.most_bytes
    for place, record in enumerate(records):
        at = terms.release_at(record)
        is_full = len(taken) >= terms.most or (taken and room < record.bytes)
        if at <= terms.now and not is_full:
            taken.append(place)
            room -= record.bytes
            continue
        next_at = at if next_at is None else min(next_at, at)
        if is_full or terms.order == "strict":
            break
    return Choice(tuple(taken), next_at)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a lane is done: everything below the position, and these offsets at or above it."""

    position: int = 0
    beyond: tuple[int, ...] = ()

    def after(self, taken: Collection[int], left: Sequence[int], end: int) -> Standing:
        """With these offsets taken; `left` are those that were read and are not, `end` is after the last that was."""
        position = left[0] if left else end
        done = {offset for offset in (*self.beyond, *taken) if offset >= position}
        return Standing(position, tuple(sorted(done)))
