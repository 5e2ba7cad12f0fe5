"""What the children of the topic sink's recovery tests do: write one unit, or send the errors of one batch."""

from __future__ import annotations

from typing import Any

from tests.support.marked import Bench

from towpath.flow.delivery.splitter import PartLimits
from towpath.flow.sinks.topic import writer as topic_writer
from towpath.flow.sinks.topic.logs import opened
from towpath.settings import Settings
from towpath.testing.processes import leave_with_parent, order

PIECES = ((1, 2, 3, 4), (5, 6), (7, 8, 9, 10))
NUMBERS = tuple(n for piece in PIECES for n in piece)


def main() -> None:
    leave_with_parent()
    told = order()
    if told["part"] is not None:
        topic_writer.limits_of = lambda log: PartLimits(told["part"], 1 << 20)  # type: ignore[attr-defined]
    settings = Settings(**told["settings"])
    with opened(settings) as log:
        bench = Bench(log, settings, told["flow"], is_new=False)
        bench.since = {int(number): offset for number, offset in told["since"].items()}
        write(bench)


def write(bench: Bench, **place: Any) -> None:
    """One attempt at the unit."""
    bench.write(*(bench.deliveries(*piece) for piece in PIECES), **place)


if __name__ == "__main__":
    main()
