"""What a flow has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

USUAL_SPARK_PLAIN = 3.0
USUAL_SPARK_STEPS = 2.0
READY_BODIES = 0.6
WITH_BAD_RECORDS = 0.9
EMBEDDED_RATE = 40_000
EACH_RATE = 50_000
SEEN_AFTER_S = 1.0


def times(factor: float, whom: str) -> Goal:
    return Goal(factor, f"≥ {factor:g} × {whom}", at_least=True)


def ahead_of(whom: str) -> Goal:
    return Goal(1.0, f"ahead of {whom}", at_least=True)


def rate(least: int) -> Goal:
    return Goal(least, f"≥ {least:,}/s", at_least=True)


def seen_after() -> Goal:
    return Goal(SEEN_AFTER_S, f"p50 < {SEEN_AFTER_S:g} s", at_least=False)
