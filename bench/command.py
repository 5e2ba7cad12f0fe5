"""What the benchmarks' command lines have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console

from bench.page import PAGE, ROOT

WIDTH = 200


class Report(Protocol):
    """What a run found."""

    @property
    def is_met(self) -> bool:
        """Whether every goal is reached."""

    def print(self, console: Console) -> None:
        """Show the tables."""

    def write(self, page: Path) -> None:
        """Put them into the page."""


def options(
    program: str,
    about: str | None,
    only: Sequence[str],
    only_help: str,
    rounds_help: str,
    records: int | None = None,
    has_figures: bool = False,
) -> argparse.Namespace:
    """With `records`, so many unless told otherwise. `has_figures`: the rows can be had as numbers too."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--only", choices=list(only), help=only_help)
    parser.add_argument("--rounds", type=int, default=5, help=rounds_help)
    if records is not None:
        parser.add_argument("--records", type=int, default=records, help="records of a turn")
    if has_figures:
        parser.add_argument("--json", type=Path, help="write goal, measured figure and ratio of each row to this file")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything works")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def finish(report: Report, out: Console, given: argparse.Namespace) -> int:
    """Show the report, write it if asked to, and return the exit code: 1 when a figure is missed."""
    report.print(out)
    if given.quick:
        out.print("quick: this shows that everything works; its figures mean nothing")
    if given.write:
        report.write(PAGE)
        out.print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0 if report.is_met else 1
