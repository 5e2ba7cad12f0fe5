"""`python -m soak.flights`: exits 1 when an answer is not the oracle's, or a line is not in exactly one place."""

from __future__ import annotations

import argparse
import random
import sys

from rich.console import Console

from soak.flights.plan import Plan
from soak.flights.run import EMBEDDED, SERVERS, soak

INTERRUPTED = 130
BOTH = "both"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.flights", description="Flights of many clients, under kills.")
    parser.add_argument("--kills", type=int, default=40, help="how many (%(default)s)")
    parser.add_argument("--rows", type=int, default=100_000, help="itineraries of each client (%(default)s)")
    parser.add_argument("--clients", type=int, default=3, help="how many at once (%(default)s)")
    parser.add_argument("--pause", type=float, default=6.0, help="seconds between two kills, on average (%(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="who is killed when, and all data; printed")
    parser.add_argument(
        "--on", choices=[EMBEDDED, SERVERS, BOTH], default=BOTH, help="SQLite, or Kafka and PostgreSQL (%(default)s)"
    )
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    plan = Plan(given.kills, seed, given.rows, given.clients, given.pause)
    grounds = [EMBEDDED, SERVERS] if given.on == BOTH else [given.on]
    try:
        outcomes = [soak(plan, Console(), ground) for ground in grounds]
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0 if all(outcome.verdict.holds for outcome in outcomes) else 1)


if __name__ == "__main__":
    main()
