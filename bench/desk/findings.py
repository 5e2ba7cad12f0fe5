"""The rows for people: where nobody is compared with, the ratio is that to the goal."""

from __future__ import annotations

from dataclasses import replace

from bench.desk.figures import figure
from bench.findings import Finding, Samples, finding
from bench.line import Line


def desk_finding(line: Line, samples: Samples) -> Finding:
    found, ratio = finding(line, samples), figure(line, samples).ratio
    return found if line.peer is not None or ratio is None else replace(found, ratio=f"{ratio:.2f} of the goal")
