"""What delivery has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

EXACTLY_ONCE = 0.90
AT_MOST_ONCE = 0.95
RECOVERED_WITHIN_S = 10.0


def exactly_once() -> Goal:
    return Goal(EXACTLY_ONCE, f"≥ {EXACTLY_ONCE:.2f} × at-most-once", at_least=True)


def at_most_once() -> Goal:
    return Goal(AT_MOST_ONCE, f"≥ {AT_MOST_ONCE:.2f} × plain foreachBatch", at_least=True)


def recovered() -> Goal:
    return Goal(RECOVERED_WITHIN_S, f"≤ {RECOVERED_WITHIN_S:g} s, every time", at_least=False)
