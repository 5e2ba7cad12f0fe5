"""`python -m bench.delivery`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.delivery.lines import Part
from bench.delivery.run import Plan, Run
from bench.delivery.settings import QUICK_RECORDS, RECORDS


def main() -> int:
    rounds_help = "rounds in turn; the median of their ratios counts"
    given = options("python -m bench.delivery", __doc__, list(Part), "one part", rounds_help, RECORDS)
    parts = tuple(part for part in Part if given.only in (None, part))
    plan = Plan(parts, given.rounds, given.records)
    if given.quick:
        plan = Plan(parts, rounds=1, records=QUICK_RECORDS)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
