"""What all contenders do the same: take their settings, say that they are ready, wait for the start.

Runs in the peers' environment too: nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """What a contender is told."""

    kind: str  # which work: see `bench.flow.lines`
    bootstrap: str
    url: str
    topic: str
    warm_up_topic: str
    home: str
    events: int
    group: str


def my_turn() -> Turn:
    return Turn(**json.loads(sys.argv[1]))


def wait_for_start() -> None:
    """From here on the clock runs."""
    print("ready", flush=True)
    sys.stdin.readline()


def wait_for_end() -> None:
    """Until nobody watches any more."""
    sys.stdin.read()


def tell(values: list[float]) -> None:
    """Figures that are measured inside."""
    print(json.dumps(values), flush=True)
