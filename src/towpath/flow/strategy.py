"""What a flow promises about each delivery when something dies in the middle of a batch."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """Chosen for a whole flow. docs/explanation/delivery.md says what each does differently, step by step."""

    EXACTLY_ONCE = "exactly-once"  # no loss, no repeat
    AT_LEAST_ONCE = "at-least-once"  # no loss; sinks without ids may get some deliveries twice
    AT_MOST_ONCE = "at-most-once"  # no repeat; what a crash has cut off is counted as forfeited

    @property
    def has_marks(self) -> bool:
        """Whether sinks write down what they have, together with it."""
        return self is Strategy.EXACTLY_ONCE

    @property
    def may_repeat(self) -> bool:
        """Whether a batch that was begun may be tried again."""
        return self is not Strategy.AT_MOST_ONCE
