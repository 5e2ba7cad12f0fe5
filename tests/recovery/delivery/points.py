"""Which crash points a case passes, by what it is made of; why the others cannot occur there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tests.recovery.delivery.shape import Shape
from tests.recovery.delivery.shapes import CHAIN, PARTS, REFUSING, SHAPES

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy

TARGETS = ("topic", "kafka", "sqlite", "postgres", "files", "index")
MAY_REFUSE = frozenset({"sqlite", "postgres", "index"})

DRIVER = (P.BATCH_FIXED, P.BATCH_SNAPSHOT, P.BATCH_LOADED, P.OUTCOME_STORED, P.ERRORS_SENT, P.BATCH_COMMITTED)
DECIDING = (P.DECISION_MADE, P.DECISION_STORED, P.BATCH_DECIDED)
LOG = (
    P.PRODUCER_OPENED,
    P.MARKS_READ,
    P.LOG_TRANSACTION_FILLED,
    P.LOG_TRANSACTION_BEFORE_COMMIT,
    P.LOG_TRANSACTION_AFTER_COMMIT,
)
APPENDS = (P.APPEND_BEFORE_COMMIT, P.APPEND_AFTER_COMMIT)
OF_SINK = {
    "topic": (),
    "kafka": (),
    "sqlite": (P.TABLE_BEFORE_COMMIT, P.TABLE_AFTER_COMMIT),
    "postgres": (P.TABLE_STAGED, P.TABLE_BEFORE_COMMIT, P.TABLE_AFTER_COMMIT),
    "files": (P.FILES_COMPLETE, P.FILE_PUBLISHED, P.FILES_SYNCED),
    "index": (P.BULK_SENT, P.INDEX_DONE),
}
WITH_MARKS = frozenset({P.TABLE_STAGED, P.TABLE_BEFORE_COMMIT})
POINTS = tuple(
    dict.fromkeys(
        (
            P.GENERATION_BEGUN,
            *DRIVER,
            *DECIDING,
            P.WENT_AHEAD,
            P.REFUSING_SINKS_DONE,
            *LOG,
            *APPENDS,
            *(point for points in OF_SINK.values() for point in points),
        )
    )
)


# Points of flows that no batch passes, with who passes them.
ELSEWHERE = {
    P.GENERATION_FENCED: "only when a person begins anew while a batch is open: test_resets.py",
    P.TOPIC_BEFORE_COMMIT: "of topics that are made and deleted: test_log_crash_points.py",
    P.TOPIC_AFTER_COMMIT: "of topics that are made and deleted: test_log_crash_points.py",
    P.START_MOVED: "of records that expire: test_log_crash_points.py",
}

# At most once: who dies here has not gone ahead yet, or has committed. Nothing may be given up then.
NOTHING_GIVEN_UP = frozenset({P.GENERATION_BEGUN, P.BATCH_FIXED, P.BATCH_SNAPSHOT, P.BATCH_COMMITTED})


@dataclass(frozen=True)
class Case:
    """One crash."""

    shape: Shape
    strategy: Strategy
    target: str
    point: P
    passed: int = 1  # at which pass of the point it dies

    def __str__(self) -> str:
        return "-".join((self.shape.name, self.strategy, self.target, self.crash_at))

    @property
    def crash_at(self) -> str:
        """As `TOWPATH_CRASH` has it."""
        return self.point if self.passed == 1 else f"{self.point}:{self.passed}"

    @property
    def batch(self) -> int:
        """In which batch it dies: the first or the second, in turn over the shapes and over all else."""
        if self.point is P.GENERATION_BEGUN or self.shape.is_remade or self.shape.is_first:
            return 0
        if self.shape.is_timed:
            return 1
        number = list(SHAPES).index(self.shape.name) if self.shape.name in SHAPES else 0
        return (number + sum(map(ord, f"{self.strategy}{self.target}{self.point}"))) % 2

    @property
    def sinks(self) -> frozenset[str]:
        """The kinds that it writes to."""
        if self.shape is not REFUSING:
            return frozenset({self.target})
        return frozenset({self.target, "files" if self.target in MAY_REFUSE else "sqlite"})

    @property
    def _writes_to_log(self) -> bool:
        is_tick = self.shape.is_timed and self.point in APPENDS
        return is_tick or self.shape.has_failures or bool(self.sinks & {"topic", "kafka"})

    def why_not(self) -> str | None:
        """Why the point cannot be passed; None: it is."""
        is_exact = self.strategy is Strategy.EXACTLY_ONCE
        if self.point in DECIDING and not (is_exact and not self.shape.is_deterministic):
            return "only exactly-once decides, and only stages that are not deterministic"
        if self.point is P.GENERATION_BEGUN and self.shape.is_timed:
            return "no generation begins with a batch of timers"
        if self.point is P.WENT_AHEAD and self.strategy is not Strategy.AT_MOST_ONCE:
            return "only at-most-once goes ahead"
        if self.point in LOG and not is_exact:
            return "only exactly-once uses transactions of the log"
        if self.point in APPENDS and is_exact and not self.shape.is_timed:
            return "exactly-once appends nothing outside a transaction, but for ticks"
        if self.point in (*LOG, *APPENDS) and not self._writes_to_log:
            return "no topic is an output, and no record fails"
        if self.point in WITH_MARKS and not is_exact:
            return "only exactly-once writes tables with marks"
        owners = {sink for sink, points in OF_SINK.items() if self.point in points}
        if owners and not owners & self.sinks:
            return f"it belongs to the sinks {', '.join(sorted(owners))}"
        return None


def product_of(shapes: tuple[Shape, ...] = tuple(SHAPES.values())) -> list[Case]:
    """Every point with every strategy, sink and shape with which it can occur."""
    every = (Case(*each) for each in product(shapes, Strategy, TARGETS, POINTS))
    return [case for case in every if case.why_not() is None]


def later_passes() -> list[Case]:
    """Points that are passed several times: by the second stage of a chain, and by the second part of a unit."""
    of_part = {"topic": LOG[2:], "sqlite": OF_SINK["sqlite"]}
    chains = [Case(CHAIN, strategy, target, point, passed=2) for strategy, target, point in _of_stages()]
    parts = [
        Case(PARTS, Strategy.EXACTLY_ONCE, target, point, passed=passed)
        for target, points in of_part.items()
        for point in points
        for passed in (1, 2)
    ]
    return [case for case in (*chains, *parts) if case.why_not() is None]


def _of_stages() -> product[tuple[Strategy, str, P]]:
    return product(Strategy, TARGETS, (*DRIVER, P.WENT_AHEAD))


def impossible() -> dict[str, int]:
    """How many combinations cannot occur, by the reason."""
    found: dict[str, int] = {}
    for each in product(SHAPES.values(), Strategy, TARGETS, POINTS):
        if (why := Case(*each).why_not()) is not None:
            found[why] = found.get(why, 0) + 1
    return found
