"""What was measured, and what follows from it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from bench.line import Line, Measure

ABSENT = "—"


@dataclass
class Samples:
    """Figures by measure, one list for each round, and what failed."""

    rounds: dict[Measure, list[list[float]]] = field(default_factory=dict)
    failures: dict[Measure, str] = field(default_factory=dict)

    def add(self, measure: Measure, values: list[float]) -> None:
        self.rounds.setdefault(measure, []).append(values)

    def values(self, measure: Measure) -> list[float]:
        return [value for values in self.rounds.get(measure, []) for value in values]

    def median(self, measure: Measure) -> float | None:
        values = self.values(measure)
        return None if measure in self.failures or not values else statistics.median(values)

    def ratio(self, ours: Measure, peer: Measure) -> float | None:
        """The median of the rounds' ratios: what slows a round down slows both."""
        if self.failures.keys() & {ours, peer} or not (self.values(ours) and self.values(peer)):
            return None
        pairs = zip(self.rounds[ours], self.rounds[peer], strict=True)
        return statistics.median(statistics.median(mine) / statistics.median(theirs) for mine, theirs in pairs)


@dataclass(frozen=True)
class Finding:
    """One row: what was asked, what came out, and whether it is enough."""

    operation: str
    place: str
    towpath: str
    peer: str
    ratio: str
    goal: str
    is_met: bool


def finding(line: Line, samples: Samples) -> Finding:
    """The row of `line`. What failed is not met, goal or none."""
    ratio = None if line.peer is None else samples.ratio(line.ours, line.peer)
    figure = samples.median(line.ours) if line.peer is None else ratio
    return Finding(
        line.operation,
        line.place,
        text(line.ours, samples),
        ABSENT if line.peer is None else f"{line.peer_name}: {text(line.peer, samples)}",
        ABSENT if ratio is None else f"{ratio:.2f}",
        line.goal.text if line.goal else "none",
        figure is not None and (line.goal is None or line.goal.met_by(figure)),
    )


def text(measure: Measure, samples: Samples) -> str:
    """A rate with its span, or a time."""
    median = samples.median(measure)
    if median is None:
        return "failed"
    values = sorted(samples.values(measure))
    if measure.is_time:
        return f"p50 {median:.3f} s, longest {values[-1]:.3f} s"
    return f"{median:,.0f}/s" + (f" ({values[0]:,.0f} to {values[-1]:,.0f})" if len(values) > 1 else "")
