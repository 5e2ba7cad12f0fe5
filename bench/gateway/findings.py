"""The rows in their own units."""

from __future__ import annotations

from dataclasses import replace

from bench.findings import Finding, Samples, finding
from bench.gateway.lines import Measure
from bench.line import Line


def gateway_finding(line: Line, samples: Samples) -> Finding:
    found = finding(line, samples)
    median = samples.median(line.ours)
    if median is None or line.ours.is_time:
        return found
    values = sorted(samples.values(line.ours))
    is_share = isinstance(line.ours, Measure) and line.ours.is_share
    shown = [f"{value:.2f}" if is_share else f"{value:,.0f} MB/min" for value in (median, values[0], values[-1])]
    spread = f" ({shown[1]} to {shown[2]})" if len(values) > 1 else ""
    return replace(found, towpath=f"{shown[0]}{spread}")
