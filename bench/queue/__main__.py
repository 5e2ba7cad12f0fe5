"""`python -m bench.queue`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.queue.field import Store
from bench.queue.run import Plan, Run


def main() -> int:
    given = options(
        "python -m bench.queue", __doc__, ("sqlite", "postgres"), "one store", "interleaved rounds; the median counts"
    )
    stores = tuple(store for store in Store if given.only in (None, store.lower().removesuffix("ql")))
    if given.quick:
        plan = Plan(stores, rounds=1, scale=0.1, long_queue=20_000, watch_s=3.0)
    else:
        plan = Plan(stores, rounds=given.rounds)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
