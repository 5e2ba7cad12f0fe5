"""`python -m bench.queue`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from bench.page import PAGE, ROOT
from bench.queue.field import Store
from bench.queue.run import Plan, Run

WIDTH = 200


def main() -> int:
    options = _options()
    stores = tuple(store for store in Store if options.only in (None, store.lower().removesuffix("ql")))
    if options.quick:
        plan = Plan(stores, rounds=1, scale=0.1, long_queue=20_000, watch_s=3.0)
    else:
        plan = Plan(stores, rounds=options.rounds)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    report = Run(plan, console).report()
    report.print(console)
    if options.quick:
        console.print("quick: this shows that everything works; its figures mean nothing")
    if options.write:
        report.write(PAGE)
        console.print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0 if report.is_met else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.queue", description=__doc__)
    parser.add_argument("--only", choices=("sqlite", "postgres"), help="one store")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the median counts")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything works")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
