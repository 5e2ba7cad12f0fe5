"""What follows from what was measured, where the shared rule is not strict enough."""

from __future__ import annotations

from dataclasses import replace

from bench.findings import Finding, Samples, finding
from bench.line import Line


def delivery_finding(line: Line, samples: Samples) -> Finding:
    """The row of `line`. A bound for a time holds every time, not for the median."""
    found = finding(line, samples)
    if line.goal is None or not line.ours.is_time:
        return found
    return replace(found, is_met=found.is_met and all(map(line.goal.met_by, samples.values(line.ours))))
