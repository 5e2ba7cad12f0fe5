"""The rows of the report, made from what was measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.goal import Goal
from bench.queue.cells import Cell, Discipline, Line
from bench.queue.field import Entry
from bench.queue.goals import rate_goal, round_trip_goal

ABSENT = "—"


@dataclass(frozen=True)
class Finding:
    """One row: what was asked, what came out, and whether it is enough."""

    operation: str
    setting: str
    processes: int
    towpath: str
    peer: str
    ratio: str
    goal: str
    is_met: bool


class Samples:
    """Everything measured so far, and who failed."""

    def __init__(self) -> None:
        self._values: dict[Cell, list[float]] = {}
        self.failures: dict[Cell, str] = {}

    def add(self, cell: Cell, values: list[float]) -> None:
        self._values.setdefault(cell, []).extend(values)

    def median(self, cell: Cell | None) -> float | None:
        """The median of a cell; None when it cannot be done or failed."""
        if cell is None or cell in self.failures or cell not in self._values:
            return None
        return statistics.median(self._values[cell])

    def p99(self, cell: Cell) -> float:
        """The time that one in a hundred exceeds; the longest when there are fewer."""
        values = sorted(self._values[cell])
        return values[min(len(values) - 1, int(len(values) * 0.99))]


def finding(line: Line, entries: list[Entry], samples: Samples, scale: float) -> Finding:
    """The row of `line`."""
    cells = [cell for entry in entries if (cell := line.cell(entry, scale)) is not None]
    ours = next(cell for cell in cells if cell.entry.is_towpath)
    peers = [cell for cell in cells if not cell.entry.is_towpath]
    # A peer that failed might have been the fastest: without it nothing is proved.
    is_whole = not any(cell in samples.failures for cell in cells)
    if line.discipline == Discipline.ROUND_TRIP:
        return _round_trip(line, ours, peers, samples, is_whole)
    return _rate(line, ours, peers, samples, is_whole)


def _rate(line: Line, ours: Cell, peers: list[Cell], samples: Samples, is_whole: bool) -> Finding:
    goal = rate_goal(line.discipline, line.setting.store)
    mine = samples.median(ours)
    best = max(peers, key=lambda cell: samples.median(cell) or 0.0)
    theirs = samples.median(best)
    ratio = mine / theirs if mine and theirs else None
    return Finding(
        line.discipline,
        line.setting.title,
        line.processes,
        rate_text(ours, samples),
        f"{best.entry.name} {best.entry.version}: {rate_text(best, samples)}",
        f"{ratio:.2f}" if ratio else ABSENT,
        goal.text,
        is_whole and ratio is not None and goal.met_by(ratio),
    )


def _round_trip(line: Line, ours: Cell, peers: list[Cell], samples: Samples, is_whole: bool) -> Finding:
    goal = round_trip_goal()
    mine = samples.median(ours)
    best = min(peers, key=lambda cell: samples.median(cell) or float("inf"))
    theirs = samples.median(best)
    return Finding(
        line.discipline,
        line.setting.title,
        line.processes,
        time_text(ours, samples),
        f"{best.entry.name} {best.entry.version}: {time_text(best, samples)}",
        f"{mine / theirs:.2f}" if mine and theirs else ABSENT,
        goal.text,
        is_whole and mine is not None and goal.met_by(mine),
    )


def single(operation: str, setting: str, value: float, text: str, goal: Goal) -> Finding:
    """A row that Towpath has to itself."""
    return Finding(operation, setting, 1, text, ABSENT, ABSENT, goal.text, goal.met_by(value))


def result_text(line: Line, entry: Entry, samples: Samples, scale: float) -> str:
    """What one contender reached in one row."""
    cell = line.cell(entry, scale)
    if cell is None:
        return "not possible"
    return time_text(cell, samples) if line.discipline == Discipline.ROUND_TRIP else rate_text(cell, samples)


def rate_text(cell: Cell, samples: Samples) -> str:
    """A rate with its batch."""
    rate = samples.median(cell)
    return "failed" if rate is None else f"{rate:,.0f}/s (batch {cell.batch:,})"


def time_text(cell: Cell, samples: Samples) -> str:
    """Median and 99th percentile of round trips."""
    median = samples.median(cell)
    return "failed" if median is None else f"p50 {median * 1e3:.1f} ms, p99 {samples.p99(cell) * 1e3:.1f} ms"
