"""Writes rows without marks, where a flow asks for less than exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from towpath import crash
from towpath.crash import CrashPoint
from towpath.flow.sinks.sink import Deliveries, Refusal
from towpath.flow.sinks.table_errors import refusal, sink_errors
from towpath.flow.sinks.table_parts import PART_BYTES
from towpath.flow.sinks.table_rows import TableRows

if TYPE_CHECKING:
    from towpath.db.tables import Tables
    from towpath.flow.sinks.table import TableSink

PORTION_ROWS = 5_000


class TableWriter:
    """Writes portions as they come: each is a transaction of its own, and what is written twice is there once."""

    def __init__(self, sink: TableSink, tables: Tables) -> None:
        self._sink = sink
        self._tables = tables
        self._rows = TableRows(sink)
        self._made: set[str] = set()

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        refusals: list[Refusal] = []
        for name, places in self._rows.by_table(deliveries, range(len(deliveries)), refusals):
            with sink_errors(self._sink.where):
                self._write(name, deliveries, places, refusals)
        return refusals

    def finish(self) -> list[Refusal]:
        return []

    def close(self) -> None:
        self._tables.close()

    def _write(self, name: str, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]) -> None:
        if name not in self._made:
            self._tables.create(name, self._sink.shape)
            self._made.add(name)
        for some in _portions(deliveries.payloads, places):
            rows, kept = self._rows.rows(deliveries, some, refusals)
            found = self._tables.write(name, self._sink.shape, rows)
            crash.here(CrashPoint.TABLE_AFTER_COMMIT)
            for refused in found:
                refusals.append(refusal(deliveries, kept[refused.at], refused.kind, refused.text))


def _portions(payloads: Sequence[bytes], places: Sequence[int]) -> Iterator[Sequence[int]]:
    start = size = 0
    for number, at in enumerate(places):
        size += len(payloads[at])
        if number - start >= PORTION_ROWS or (size > PART_BYTES and number > start):
            yield places[start:number]
            start, size = number, len(payloads[at])
    if start < len(places):
        yield places[start:]
