"""What Towpath has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal
from bench.queue.cells import Discipline
from bench.queue.field import Store

# "As fast as": what repeated measurements of the same thing differ by.
AS_FAST = 0.95
DRAIN_BEST = {Store.SQLITE: 4.0, Store.POSTGRES: 2.0}
ROUND_TRIP_P50_S = 0.005
CLAIM_COST_RATIO = 1.5
IDLE_CORE_SHARE = 0.01


def rate_goal(discipline: Discipline, store: Store) -> Goal:
    """The least ratio to the fastest peer."""
    bound = DRAIN_BEST[store] if discipline == Discipline.DRAIN_BEST else AS_FAST
    return Goal(bound, f"≥ {bound:g} × fastest peer", at_least=True)


def round_trip_goal() -> Goal:
    """The longest median round trip."""
    return Goal(ROUND_TRIP_P50_S, f"p50 ≤ {ROUND_TRIP_P50_S * 1000:g} ms", at_least=False)


def claim_cost_goal() -> Goal:
    """How much dearer a claim may be behind a long queue."""
    return Goal(CLAIM_COST_RATIO, f"≤ {CLAIM_COST_RATIO:g} ×", at_least=False)


def idle_goal() -> Goal:
    """The most that a worker with nothing to do may use."""
    return Goal(IDLE_CORE_SHARE, f"< {IDLE_CORE_SHARE:.0%} of a core", at_least=False)
