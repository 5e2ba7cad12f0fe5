"""A row of a table: what is measured against what, and what it has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bench.goal import Goal


class Measure(StrEnum):
    """One thing that is done and timed. Each benchmark has its own."""

    @property
    def is_time(self) -> bool:
        """Whether the figures are seconds, and not rates."""
        return False


@dataclass(frozen=True)
class Line:
    """With a peer the goal is about the ratio to it, else about the figure itself."""

    part: str
    operation: str
    place: str  # where, and with which durability
    ours: Measure
    peer: Measure | None = None
    peer_name: str = ""
    goal: Goal | None = None

    @property
    def measures(self) -> list[Measure]:
        return [self.ours] if self.peer is None else [self.ours, self.peer]
