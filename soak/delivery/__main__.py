"""`python -m soak.delivery`: exits 1 when a record is not in exactly one place."""

from __future__ import annotations

import argparse
import random
import signal
import sys

from rich.console import Console

from soak.delivery.plan import Plan
from soak.delivery.run import soak
from towpath.flow.delivery.ids import Strategy

INTERRUPTED = 130


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.delivery", description="Three stages under random kills.")
    parser.add_argument("--kills", type=int, default=200, help="how many processes are ended by SIGKILL")
    parser.add_argument("--seconds", type=float, default=900.0, help="over how long they are spread, at least")
    parser.add_argument("--seed", type=int, default=None, help="who is killed when; printed, to be given again")
    parser.add_argument(
        "--delivery",
        choices=[each.value for each in Strategy],
        default=Strategy.EXACTLY_ONCE.value,
        help="what the flow promises; with less than exactly-once this run has to fail",
    )
    given = parser.parse_args()
    if given.kills < 1:
        parser.error("--kills: at least one")
    seed = random.randrange(10**6) if given.seed is None else given.seed
    console = Console()
    console.print(f"seed {seed}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))  # everything is ended on the way out
    try:
        verdict = soak(Plan(given.kills, given.seconds, seed, delivery=given.delivery), console)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0 if verdict.holds else 1)


if __name__ == "__main__":
    main()
