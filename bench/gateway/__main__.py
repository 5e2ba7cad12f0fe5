"""`python -m bench.gateway`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.gateway.lines import Log, Part
from bench.gateway.run import Plan, Run

LINES, CLIENTS, MANY_S, FLIGHTS = 2_000_000, 50, 60.0, 1_000_000


def main() -> int:
    about = ("one part, or one log", "rounds; the median counts")
    given = options("python -m bench.gateway", __doc__, [*Part, *Log], *about)
    parts = tuple(part for part in Part if given.only in (None, part, *Log))
    logs = tuple(log for log in Log if given.only in (None, log, *Part))
    plan = Plan(parts, logs, given.rounds, LINES, CLIENTS, MANY_S, FLIGHTS)
    if given.quick:
        plan = Plan(parts, logs, 1, lines=100_000, clients=5, many_s=1.0, flights=5_000)
    out = console()
    return finish(Run(plan, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
