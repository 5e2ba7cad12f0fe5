"""`python -m soak.up`: exits 1 when something is not up again, or a record is not in exactly one place."""

from __future__ import annotations

import argparse
import random
import sys

from rich.console import Console

from soak.up.plan import Plan
from soak.up.run import soak

INTERRUPTED = 130


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.up", description="Everything that `up` runs, under kills.")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long half of all is killed now and then")
    parser.add_argument("--seed", type=int, default=None, help="who is killed when; printed, to be given again")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--least-batches", type=int, default=20, help="fewer during the kills: the run is void")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    console = Console()
    console.print(f"seed {seed}")
    plan = Plan(given.seconds, seed, least_batches=given.least_batches)
    try:
        verdict = soak(plan, console, given.database)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0 if verdict.holds else 1)


if __name__ == "__main__":
    main()
