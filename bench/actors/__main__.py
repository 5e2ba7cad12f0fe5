"""`python -m bench.actors`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.actors.lines import SLEEPERS, Part, Store
from bench.actors.run import Plan, Run
from bench.command import console, finish, options

KILLS, HERDS = 5, 3
WATCH_S = 30.0


def main() -> int:
    choices = [*Part, *Store]
    rounds_help = "rounds in turn; the median of their ratios counts"
    given = options("python -m bench.actors", __doc__, choices, "one part, or one database", rounds_help)
    parts = tuple(part for part in Part if given.only in (None, part, *Store))
    stores = tuple(store for store in Store if given.only in (None, store, *Part))
    plan = Plan(parts, stores, given.rounds, 1.0, KILLS, HERDS, SLEEPERS, WATCH_S)
    if given.quick:
        plan = Plan(parts, stores, rounds=1, scale=0.05, kills=1, herds=1, sleepers=200, watch_s=3.0)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
