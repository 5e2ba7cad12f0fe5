"""A batch as the ledger has it. The chart in docs/reference/flow-states.md is held equal to the moves here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.flow.positions import Positions

# How many records went where: `{"read": 9, "filtered": {"label": 1}, "failed": {"9": 2}, …}`.
Counts = Mapping[str, int | Mapping[str, int]]
Digests = Mapping[str, Mapping[str, str]]  # by output and unit, in hexadecimal
Timings = Mapping[str, float]  # seconds, by what took them


class BatchState(StrEnum):
    """How far a batch has come."""

    SNAPSHOT = "snapshot"  # its positions are fixed
    DECIDED = "decided"  # what becomes of each record is fixed; outputs may have some of it
    AHEAD = "ahead"  # at most once: outputs may have some of it, and it will not be tried again
    COMMITTED = "committed"  # every output has what it is to have
    SUPERSEDED = "superseded"  # a reset came before it was committed; it never will be


_SNAPSHOT, _DECIDED, _AHEAD, _COMMITTED, _SUPERSEDED = BatchState

# Where each state leads. Outputs that are one atomic act with their errors need no decision.
MOVES: dict[BatchState, frozenset[BatchState]] = {
    _SNAPSHOT: frozenset({_DECIDED, _AHEAD, _COMMITTED, _SUPERSEDED}),
    _DECIDED: frozenset({_COMMITTED, _SUPERSEDED}),
    _AHEAD: frozenset({_COMMITTED, _SUPERSEDED}),
    _COMMITTED: frozenset(),
    _SUPERSEDED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """One row of the ledger."""

    flow: str
    stage: str
    generation: int
    batch_id: int
    hash: str
    positions: Positions
    units: Any
    state: BatchState
    attempts: int
    counts: Counts
    digests: Digests
    timings: Timings
    started_at: datetime
    decided_at: datetime | None
    committed_at: datetime | None

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.flow, self.stage, self.generation, self.batch_id


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that a stage will never read, and why. `batch_id` is the batch before which it was noticed."""

    flow: str
    stage: str
    generation: int
    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int
    reason: str
    batch_id: int | None
    noticed_at: datetime


def added(one: Counts, other: Counts) -> dict[str, int | dict[str, int]]:
    """The sum of two counts, name by name, also of names that only one of them has."""
    total: dict[str, int | dict[str, int]] = {}
    for name in sorted({*one, *other}):
        parts = [counts[name] for counts in (one, other) if name in counts]
        numbers = [part for part in parts if isinstance(part, int)]
        total[name] = sum(numbers) if len(numbers) == len(parts) else _added_parts(parts)
    return total


def _added_parts(parts: list[int | Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items() if isinstance(part, Mapping) else [("", part)]:
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))
