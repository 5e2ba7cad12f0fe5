"""What supervision has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

EXIT_WITHIN_S = 1.0
SILENCE_WITHIN_S = 3.0
BACK_WITHIN_S = 5.0
COORDINATOR_WITHIN_S = 3.0
CORE_SHARE = 0.02


def within(seconds: float) -> Goal:
    return Goal(seconds, f"≤ {seconds:g} s at the median", at_least=False)


def none_by_mistake() -> Goal:
    return Goal(0, "not one", at_least=False)


def watching() -> Goal:
    return Goal(CORE_SHARE, f"< {CORE_SHARE:.0%} of a core", at_least=False)
