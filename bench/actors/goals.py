"""What actors have to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

ON_SQLITE = 10.0
ON_POSTGRES = 4.0
GOES_ON_WITHIN_S = 5.0
IDLE_CORE_SHARE = 0.01
CLAIM_RATIO = 1.1
ALL_TAKEN_WITHIN_S = 10.0


def transitions(least: float) -> Goal:
    return Goal(least, f"≥ {least:g} × DBOS", at_least=True)


def goes_on() -> Goal:
    return Goal(GOES_ON_WITHIN_S, f"< {GOES_ON_WITHIN_S:g} s, every time", at_least=False)


def idle() -> Goal:
    return Goal(IDLE_CORE_SHARE, f"< {IDLE_CORE_SHARE:.0%} of a core, every time", at_least=False)


def claims() -> Goal:
    return Goal(CLAIM_RATIO, f"≤ {CLAIM_RATIO:g} × that without them", at_least=False)


def all_taken() -> Goal:
    return Goal(ALL_TAKEN_WITHIN_S, f"≤ {ALL_TAKEN_WITHIN_S:g} s, every time", at_least=False)
