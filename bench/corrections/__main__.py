"""`python -m bench.corrections`: measure, print, and exit with 1 when a figure is missed."""

from __future__ import annotations

import sys

from bench.command import console, finish, options
from bench.corrections.held_out import DATA_SETS
from bench.corrections.run import Run


def main() -> int:
    names = [each.name for each in DATA_SETS]
    given = options("python -m bench.corrections", __doc__, names, "one data set", "not used: the data sets are fixed")
    chosen = [each for each in DATA_SETS if given.only in (None, each.name)]
    out = console()
    return finish(Run(chosen, out).report(), out, given)


if __name__ == "__main__":
    sys.exit(main())
