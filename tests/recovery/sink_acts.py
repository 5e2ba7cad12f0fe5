"""What the children of the sinks' recovery tests do: write one unit, or die on the way.

python -m tests.recovery.sink_acts '{"kind": "sqlite", "options": {…}, "launch": 1, "strategy": "exactly-once"}'
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.units import attempt, place, unit

from towpath.flow.delivery.ids import Strategy
from towpath.flow.sinks.files import formats as file_formats
from towpath.flow.sinks.files.sink import files
from towpath.flow.sinks.index.sink import index
from towpath.flow.sinks.sink import Deliveries, Sink, WriterContext
from towpath.flow.sinks.table import writer as table_writer
from towpath.flow.sinks.table.sink import table
from towpath.testing.processes import leave_with_parent, order

OFFSETS = range(12)
REFUSED = (2, 7, 11)  # by tables, whose column `n` is a number, and by an index whose field is one
AT_ONCE = 5  # are handed over
PART = 4  # rows of a transaction of SQLite, documents of a bulk request
DAYS = ("mon", "tue", "wed")


def document(offset: int) -> dict[str, Any]:
    return {"n": "no number" if offset in REFUSED else offset, "day": DAYS[offset % len(DAYS)]}


def sink_of(kind: str, options: Mapping[str, Any]) -> Sink:
    if kind == "index":
        return index(**options, id="{n}", max_items=PART, in_flight=1)
    if kind in ("json", "parquet"):
        return files(f"{options['directory']}/{{day}}", format=kind)  # type: ignore[arg-type]
    return table("orders", **options, columns={"n": "bigint not null", "day": "text"})


def handed(kind: str, options: Mapping[str, Any]) -> list[Deliveries]:
    found = []
    for start in range(0, len(OFFSETS), AT_ONCE):
        some = list(OFFSETS[start : start + AT_ONCE])
        documents = [document(offset) for offset in some]
        targets = [f"{options['directory']}/{each['day']}" for each in documents] if "directory" in options else None
        found.append(unit(some, documents, targets=targets))
    return found


def write_unit(kind: str, options: Mapping[str, Any], at: WriterContext) -> list[int]:
    """One attempt; returns the offsets of what was refused."""
    table_writer.PART_ROWS = table_writer.PORTION_ROWS = PART
    return sorted(
        each.deliveries.versions[each.at] for each in attempt(sink_of(kind, options), at, *handed(kind, options))
    )


def stop_in_the_middle(kind: str, options: Mapping[str, Any], at: WriterContext) -> None:
    """Hand over all but the last, stop as a process that is swapped out does, and go on when woken."""
    table_writer.PART_ROWS = PART
    file_formats.BUFFER_BYTES = 1
    *first, last = handed(kind, options)
    writer = sink_of(kind, options).writer(at)
    for each in first:
        writer.write(each)
    os.kill(os.getpid(), signal.SIGSTOP)
    writer.write(last)
    writer.finish()


def main() -> None:
    leave_with_parent()
    told = order()
    at = replace(place(launch=told["launch"]), strategy=Strategy(told["strategy"]))
    act = stop_in_the_middle if told.get("stops") else write_unit
    act(told["kind"], told["options"], at)


if __name__ == "__main__":
    main()
