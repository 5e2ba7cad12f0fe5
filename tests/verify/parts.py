"""The parts of `make verify`, in the order in which they run; `tests/tiers.py` says which case belongs to which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MOST_MINUTES = 45  # of a part, on two cores; one that outgrows it is pruned or divided


@dataclass(frozen=True)
class Part:
    """Cases of pytest, or programs of our own that say by their exit code whether all held."""

    name: str
    about: str
    quick_percent: int = 25  # of its cases, in `QUICK=1`
    processes: int = 2
    most_cases: int = 1_000  # of one process; a Java that has run a thousand queries becomes slow
    paths: tuple[str, ...] = ("tests",)  # where its cases are looked for
    quick_python: bool = False  # Spark's Python processes are forked from one that has loaded everything
    programs: tuple[tuple[str, ...], ...] = ()
    quick_programs: tuple[tuple[str, ...], ...] = ()


DELIVERY: dict[str, Any] = {
    "processes": 4,
    "most_cases": 120,
    "paths": ("tests/recovery/delivery",),
    "quick_python": True,
}
PARTS = (
    Part("gate", "the cases of `make test`, in a random order"),
    Part("matrix", "what the gate tries once, on every server and at full length"),
    Part("kills", "processes of every kind killed at every crash point, and outages", processes=3, most_cases=300),
    Part("flows", "flows on Spark: all codes, sinks and steps, on every server", most_cases=150),
    Part("guides", "how-to pages, tutorials, examples, the demo, and the console in a browser"),
    Part("walks", "flows that crash, recover and crash again at the next point", **DELIVERY),
    Part("recovery", "one crash of a flow, at every point with every strategy, sink and shape", **DELIVERY),
    Part("drivers", "flows whose driver or worker is killed: every pair of point and sink", **DELIVERY),
    Part(
        "simulate",
        "elections in a simulated world of faults",
        programs=(("simulation", "--seeds", "1000"),),
        quick_programs=(("simulation", "--seeds", "300"),),
    ),
    Part(
        "soak",
        "a short soak of each kind",
        programs=(
            ("soak.queue", "--seconds", "30", "--messages", "5000"),
            ("soak.flow", "--records", "3000000"),
            ("soak.up", "--seconds", "120", "--least-batches", "5"),
            ("soak.flights", "--kills", "6", "--rows", "5000", "--on", "embedded"),
            ("soak.delivery", "--kills", "20", "--seconds", "200"),
        ),
        quick_programs=(("soak.queue", "--seconds", "15", "--messages", "2000"),),
    ),
)
NAMES = tuple(part.name for part in PARTS)


def find(name: str) -> Part:
    for part in PARTS:
        if part.name == name:
            return part
    raise KeyError(name)
