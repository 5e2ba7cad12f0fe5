"""`python -m bench.log`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from bench.log.lines import Part
from bench.log.run import Plan, Run
from bench.page import PAGE, ROOT

WIDTH = 200


def main() -> int:
    options = _options()
    parts = tuple(part for part in Part if options.only in (None, part))
    plan = Plan(parts, rounds=options.rounds)
    if options.quick:
        plan = Plan(parts, rounds=1, records=20_000, single_records=5)
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
    parser = argparse.ArgumentParser(prog="python -m bench.log", description=__doc__)
    parser.add_argument("--only", choices=list(Part), help="one part")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in turn; the median counts")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything works")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
