"""`python -m soak.queue`: exits 1 when a promise did not hold."""

from __future__ import annotations

import argparse
import random
import sys

from rich.console import Console

from soak.queue.plan import Plan
from soak.queue.run import soak

DATABASES = {"sqlite": ("sqlite",), "postgres": ("postgres",), "both": ("postgres", "sqlite")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.queue", description="Soak the queue under kills and faults.")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long kills and load go on, on each database")
    parser.add_argument(
        "--messages", type=int, default=20_000, help="least number of messages that must come to an end"
    )
    parser.add_argument("--workers", type=int, default=4, help="worker processes")
    parser.add_argument("--kill-every", type=float, default=1.0, metavar="SECONDS", help="time between kills")
    parser.add_argument("--database", choices=DATABASES, default="both")
    parser.add_argument("--seed", type=int, default=None, help="who is killed when; printed, to be given again")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    console = Console()
    console.print(f"seed {seed}")
    plans = [
        Plan(name, given.seconds, given.messages, given.workers, given.kill_every, seed)
        for name in DATABASES[given.database]
    ]
    verdicts = [soak(plan, console) for plan in plans]
    sys.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
