"""`python -m bench.console`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.console.plan import Part, Plan, Store
from bench.console.run import Run

CASES, MESSAGES, EVENTS = 1_000_000, 10_000_000, 1_000_000
TIMES, SEEN, CROWD_S = 41, 30, 60.0


def main() -> int:
    choices = [*Part, *Store]
    given = options("python -m bench.console", __doc__, choices, "one part, or one store", "not used: pages are many")
    parts = tuple(part for part in Part if given.only in (None, part, *Store))
    stores = tuple(store for store in Store if given.only in (None, store, *Part))
    plan = Plan(parts, stores, CASES, MESSAGES, EVENTS, TIMES, SEEN, CROWD_S)
    if given.quick:
        plan = Plan(parts, stores, cases=5_000, messages=20_000, events=5_000, times=3, seen=3, crowd_s=10.0)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
