"""`python -m bench.log`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.log.lines import Part
from bench.log.run import Plan, Run


def main() -> int:
    given = options("python -m bench.log", __doc__, list(Part), "one part", "rounds in turn; the median counts")
    parts = tuple(part for part in Part if given.only in (None, part))
    plan = Plan(parts, rounds=given.rounds)
    if given.quick:
        plan = Plan(parts, rounds=1, records=20_000, single_records=5)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
