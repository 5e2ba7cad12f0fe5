"""`python -m soak.flow`: exits 1 when the driver's memory has grown by more than a tenth."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from soak.flow.run import EVERY, soak

MOST_GROWTH = 1.1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.flow", description="Memory of a driver over many records.")
    parser.add_argument("--records", type=int, default=10 * EVERY, help="how many; the first million is the measure")
    console = Console(highlight=False)
    found = soak(parser.parse_args().records, console.print)
    first, last = found[min(found)], found[max(found)]
    growth = last.total / first.total
    console.print(f"after {min(found):,} records: {first}")
    console.print(f"after {max(found):,} records: {last}")
    console.print(f"grown to {growth:.3f} times of it; allowed: {MOST_GROWTH:g} times")
    sys.exit(0 if growth <= MOST_GROWTH else 1)


if __name__ == "__main__":
    main()
