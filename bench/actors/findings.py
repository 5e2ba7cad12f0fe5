"""What follows from what was measured."""

from __future__ import annotations

from dataclasses import replace

from bench.actors.lines import Measure
from bench.findings import Finding, Samples, finding, text
from bench.line import Line


def actors_finding(line: Line, samples: Samples) -> Finding:
    """The row of `line`. A bound without a peer holds every time, not for the median."""
    found = replace(finding(line, samples), towpath=_text(line.ours, samples))
    if line.peer is not None:
        return replace(found, peer=f"{line.peer_name}: {_text(line.peer, samples)}")
    values = samples.values(line.ours)
    return replace(found, is_met=found.is_met and line.goal is not None and all(map(line.goal.met_by, values)))


def _text(measure: object, samples: Samples) -> str:
    assert isinstance(measure, Measure)
    median = samples.median(measure)
    if median is None:
        return "failed"
    values = samples.values(measure)
    if measure.is_share:
        return f"{median:.2%} of a core, most {max(values):.2%}"
    if measure.is_time and max(values) < 1:
        return f"p50 {median * 1e3:.3f} ms"
    return text(measure, samples)
