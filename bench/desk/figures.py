"""The rows for programs: goal, measured figure and ratio of each, as numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.findings import Samples, finding
from bench.line import Line


@dataclass(frozen=True)
class Figure:
    """One row. Rates are a second, times are seconds; what was not measured is None."""

    part: str
    operation: str
    place: str
    goal: str | None
    bound: float | None
    measured: float | None
    peer: str | None
    peer_measured: float | None
    ratio: float | None  # to the peer; without one, to the bound
    is_met: bool


def figure(line: Line, samples: Samples) -> Figure:
    measured = samples.median(line.ours)
    return Figure(
        line.part,
        line.operation,
        line.place,
        line.goal.text if line.goal else None,
        line.goal.bound if line.goal else None,
        measured,
        line.peer_name if line.peer else None,
        samples.median(line.peer) if line.peer else None,
        _ratio(line, samples, measured),
        finding(line, samples).is_met,
    )


def _ratio(line: Line, samples: Samples, measured: float | None) -> float | None:
    if line.peer is not None:
        return samples.ratio(line.ours, line.peer)
    return measured / line.goal.bound if line.goal and measured is not None else None


def write_figures(path: Path, figures: Sequence[Figure]) -> None:
    path.write_text(json.dumps([asdict(each) for each in figures], indent=1, ensure_ascii=False) + "\n")
