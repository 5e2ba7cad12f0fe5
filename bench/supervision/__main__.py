"""`python -m bench.supervision`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.supervision.lines import WATCHED, Part
from bench.supervision.run import Plan, Run

KILLS, ELECTIONS = 50, 10
LOAD_S, WATCH_S = 600.0, 60.0


def main() -> int:
    given = options("python -m bench.supervision", __doc__, list(Part), "one part", "not used: kills are many")
    parts = tuple(part for part in Part if given.only in (None, part))
    plan = Plan(parts, KILLS, ELECTIONS, LOAD_S, WATCHED, WATCH_S)
    if given.quick:
        plan = Plan(parts, kills=2, elections=1, load_s=10.0, watched=5, watch_s=5.0)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
