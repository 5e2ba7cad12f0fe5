"""What the desk has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

INTAKE_S = {"SQLITE": 10_000.0, "POSTGRES": 20_000.0}
REPLAY_S = 20_000.0
QUERY_S = 0.1
GROUPING_RATIO = 1.5
RELEASE_S = 1.0
HEALTHY_RATIO = 0.9


def intake(store: str) -> Goal:
    return Goal(INTAKE_S[store], f"≥ {INTAKE_S[store]:,.0f} errors/s", at_least=True)


def replay() -> Goal:
    return Goal(REPLAY_S, f"≥ {REPLAY_S:,.0f} records/s", at_least=True)


def query() -> Goal:
    return Goal(QUERY_S, f"< {QUERY_S * 1000:g} ms at the median", at_least=False)


def grouping() -> Goal:
    return Goal(GROUPING_RATIO, f"≤ {GROUPING_RATIO:g} × that with 1,000 cases", at_least=False)


def healthy() -> Goal:
    return Goal(HEALTHY_RATIO, f"≥ {HEALTHY_RATIO:g} × a clean flow", at_least=True)


def release() -> Goal:
    return Goal(RELEASE_S, f"≤ {RELEASE_S:g} s at the median", at_least=False)
