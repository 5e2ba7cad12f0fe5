"""`python -m bench.desk`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.desk.figures import write_figures
from bench.desk.healthy import EVENTS, WARM_UP_EVENTS
from bench.desk.intake import ERRORS
from bench.desk.lines import MANY, Part, Store
from bench.desk.run import Plan, Run

REPLAYS, RELEASES = 50_000, 100


def main() -> int:
    choices = [*Part, *Store]
    about = ("one part, or one store", "rounds; the median counts")
    given = options("python -m bench.desk", __doc__, choices, *about, has_figures=True)
    parts = tuple(part for part in Part if given.only in (None, part, *Store))
    stores = tuple(store for store in Store if given.only in (None, store, *Part))
    plan = Plan(parts, stores, given.rounds, ERRORS, MANY, REPLAYS, RELEASES, EVENTS, WARM_UP_EVENTS)
    if given.quick:
        plan = Plan(
            parts, stores, 1, errors=5_000, cases=5_000, replays=2_000, releases=5, events=20_000, warm_up=5_000
        )
    out = console()
    run = Run(plan, out)
    report = run.report()
    if given.json is not None:
        write_figures(given.json, run.figures())
    return finish(report, out, given)


if __name__ == "__main__":
    sys.exit(main())
