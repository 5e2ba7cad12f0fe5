"""What corrections have to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

PRECISION = 0.99
COVERAGE = 0.60


def precision() -> Goal:
    return Goal(PRECISION, f"≥ {PRECISION:.0%} of the changes", at_least=True)


def coverage() -> Goal:
    return Goal(COVERAGE, f"≥ {COVERAGE:.0%} of the correctable fields", at_least=True)


def better() -> Goal:
    return Goal(1.0, "better at equal coverage", at_least=True)
