"""A batch as the audit needs it, and the stage that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.access.barrier import OPEN, Barrier
from towpath.flow.ledger_row import BatchState
from towpath.flow.positions import Positions, Range, Spot
from towpath.flow.reentry_record import Sent


@dataclass(frozen=True, slots=True)
class BatchRow:
    """What the ledger says about a batch."""

    generation: int
    batch_id: int
    hash: str
    positions: Positions
    state: BatchState = BatchState.COMMITTED
    counts: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    blocks: Barrier = OPEN  # the block rules that were fixed with it

    @property
    def is_committed(self) -> bool:
        return self.state is BatchState.COMMITTED

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Those in which there is something to read."""
        return tuple(each for each in self.positions if not each.is_empty)

    def count(self, name: str) -> int:
        """A number of the row, added up where it is split by step, code or output."""
        return added_up(self.counts.get(name, 0))

    def delivered(self, output: str) -> int:
        found = self.counts.get("delivered", {})
        return added_up(found.get(output, 0)) if isinstance(found, Mapping) else 0


@dataclass(frozen=True, slots=True)
class GapRow:
    """Offsets that will never be read. Those that were noticed by a batch are also told to the error topic."""

    generation: int
    place: Range
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that makes no sense, and why."""

    generation: int
    batch_id: int
    why: str


@dataclass(frozen=True, slots=True)
class StageRows:
    """What the ledger says about a stage. Batches come in their order."""

    flow: str
    name: str
    generation: int
    topics: Mapping[str, Sequence[str]]  # the ids of each topic that is read, oldest first
    starting: Positions
    batches: Sequence[BatchRow] = ()
    gaps: Sequence[GapRow] = ()
    totals: Mapping[str, Any] = field(default_factory=dict)
    unreadable: Sequence[UnreadableRow] = ()
    recalled: frozenset[Sent] = frozenset()  # what the desk has called back, of the whole flow

    @property
    def committed(self) -> Iterator[BatchRow]:
        return (each for each in self.batches if each.is_committed)

    @property
    def stops(self) -> dict[Spot, int]:
        """Where the stage has come to in its present generation."""
        stops = self.starting.stops
        for each in self.committed:
            if each.generation == self.generation:
                stops |= each.positions.stops
        return stops

    @property
    def current_ids(self) -> dict[str, str]:
        return {name: ids[-1] for name, ids in self.topics.items() if ids}


def added_up(value: object) -> int:
    """A count, whether it is split up or not. What is no number counts nothing: the sums will not fit."""
    if isinstance(value, Mapping):
        return sum(map(added_up, value.values()))
    return value if isinstance(value, int) else 0


def flat_counts(counts: Mapping[str, Any]) -> dict[str, int]:
    """`{"read": 9, "failed of 9": 2}`"""
    flat: dict[str, int] = {}
    for name, value in counts.items():
        if isinstance(value, Mapping):
            flat |= {f"{name} of {part}": added_up(count) for part, count in value.items()}
        else:
            flat[name] = added_up(value)
    return flat
