"""What a process of this benchmark is told, and how it answers. Runs in the peers' environment, too.

A process sets itself up, says `ready`, waits for a line on its input and only then does what is measured: imports and
connections are in no figure.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum

STATES = 5  # of a run, each with code that does nothing


class Shape(StrEnum):
    """How runs come about."""

    AT_ONCE = "several at once"  # they are to be done, and so many of them are at work at any time
    ONE_BY_ONE = "one at a time"  # the next is started when the one before has ended, and its result is here
    WITH_STARTS = "with their starts"  # several at once, and their starts are written in the same time


@dataclass(frozen=True)
class Order:
    """Which runs, on which database; journal and synchronous are SQLite's."""

    url: str
    shape: Shape
    runs: int
    at_once: int
    synchronous: str = "full"
    journal: str = ""  # as it comes

    def as_told(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class HostOrder:
    """A host that runs until its input ends."""

    url: str
    name: str

    def as_told(self) -> dict[str, object]:
        return asdict(self)


def told() -> dict[str, object]:
    given: dict[str, object] = json.loads(sys.argv[1])
    given.pop("home")  # where it may write; the database has its place
    return given


def order() -> Order:
    given = told()
    return Order(**{**given, "shape": Shape(str(given["shape"]))})  # type: ignore[arg-type]


def wait_for_start() -> None:
    """From here on the clock runs."""
    print("ready", flush=True)
    sys.stdin.readline()


def wait_for_end() -> None:
    """Until nobody watches any more."""
    sys.stdin.read()


def tell(*values: float) -> None:
    print(json.dumps(values), flush=True)
