"""What a figure has to reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A bound and how it reads."""

    bound: float
    text: str
    at_least: bool

    def met_by(self, value: float) -> bool:
        """Whether `value` reaches the bound."""
        return value >= self.bound if self.at_least else value <= self.bound
