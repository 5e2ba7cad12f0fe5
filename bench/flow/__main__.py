"""`python -m bench.flow`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.flow.lines import Part
from bench.flow.run import Plan, Run


def main() -> int:
    given = options("python -m bench.flow", __doc__, list(Part), "one part", "rounds in turn; the median counts")
    parts = tuple(part for part in Part if given.only in (None, part))
    plan = Plan(parts, rounds=given.rounds)
    if given.quick:
        plan = Plan(parts, rounds=1, events=20_000, warm_up_events=2_000)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
