"""Which crash points a case can pass, by what it is made of; why the others cannot occur."""

from __future__ import annotations

from dataclasses import dataclass

from tests.recovery.delivery.shapes import Shape

from towpath.crash import CrashPoint as P
from towpath.flow.strategy import Strategy

DRIVER = (
    P.GENERATION_BEGUN,
    P.BATCH_FIXED,
    P.BATCH_SNAPSHOT,
    P.BATCH_LOADED,
    P.OUTCOME_STORED,
    P.ERRORS_SENT,
    P.BATCH_COMMITTED,
)
DECIDING = (P.DECISION_MADE, P.DECISION_STORED, P.BATCH_DECIDED)
LOG = (P.PRODUCER_OPENED, P.LOG_TRANSACTION_FILLED, P.LOG_TRANSACTION_BEFORE_COMMIT, P.LOG_TRANSACTION_AFTER_COMMIT)


@dataclass(frozen=True)
class Case:
    """One crash, or two."""

    shape: Shape
    strategy: Strategy
    target: str
    point: P
    second: P | None = None

    def __str__(self) -> str:
        names = (self.shape.name, self.strategy, self.target, self.point, self.second)
        return "-".join(filter(None, map(str, names)))

    @property
    def batch(self) -> int:
        """In which batch it dies: the first or the second, in turn over the cases."""
        return 0 if self.point is P.GENERATION_BEGUN else sum(map(ord, str(self))) % 2

    def why_not(self) -> str | None:
        """Why the point cannot be passed; None: it must be."""
        return why_not(self.shape, self.strategy, self.point)


def why_not(shape: Shape, strategy: Strategy, point: P) -> str | None:
    is_exact = strategy is Strategy.EXACTLY_ONCE
    if point in DECIDING and not (is_exact and not shape.is_deterministic):
        return "only stages that are not deterministic are decided, and only where each delivery counts"
    if point is P.WENT_AHEAD and strategy is not Strategy.AT_MOST_ONCE:
        return "only at-most-once commits before it writes"
    if point in LOG and not is_exact:
        return "only exactly-once writes with transactions of the log"
    return None
