"""Exactly once into SQLite: the rows of a unit in parts, each one transaction together with its mark.

A transaction holds up all other writers of the file, so a whole unit would be too much for one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db.sqlite_tables import SqliteTables, Write
from towpath.flow.sinks.sink import Deliveries, Place, Refusal
from towpath.flow.sinks.table_errors import refusal, sink_errors
from towpath.flow.sinks.table_parts import Part, Parts, refused_again, refused_ids, unit_of
from towpath.flow.sinks.table_rows import Row, TableRows

if TYPE_CHECKING:
    from towpath.flow.sinks.table import TableSink


class TablePartWriter:
    """Keeps what it is handed until a part is complete."""

    def __init__(self, sink: TableSink, tables: SqliteTables, place: Place) -> None:
        self._sink = sink
        self._tables = tables
        self._launch = place.launch
        self._unit = unit_of(place)
        self._rows = TableRows(sink)
        self._made: set[str] = set()
        with sink_errors(sink.where):
            self._known = tables.begin_unit(self._unit, self._launch)
        self._parts = Parts(self._known)

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        with sink_errors(self._sink.where):
            return [refused for part in self._parts.cut(deliveries) for refused in self._put(part)]

    def finish(self) -> list[Refusal]:
        with sink_errors(self._sink.where):
            return [refused for part in self._parts.rest() for refused in self._put(part)]

    def close(self) -> None:
        self._tables.close()

    def _put(self, part: Part) -> list[Refusal]:
        known = self._known.get(part.number)
        if known is not None and part.is_in(known):
            return list(refused_again(known.refused, part.pieces))
        refusals: list[Refusal] = []
        made = self._by_table(part, refusals)
        for name in made.keys() - self._made:
            self._tables.create(name, self._sink.shape)
            self._made.add(name)
        with self._tables.transaction() as (tx, write):
            self._tables.marks.check(tx, self._unit, self._launch)
            found = self._tables.marks.find(tx, self._unit, part.number)
            if found is not None and part.is_in(found):  # another attempt was faster
                return list(refused_again(found.refused, part.pieces))
            refusals += self._write(write, made)
            mark = part.mark(refused_ids(refusals))
            self._tables.marks.put(tx, self._unit, part.number, self._launch, mark)
            if not part.number:
                self._tables.marks.forget(tx, self._unit)
            crash.here(CrashPoint.TABLE_BEFORE_COMMIT)
        crash.here(CrashPoint.TABLE_AFTER_COMMIT)
        return refusals

    def _by_table(self, part: Part, refusals: list[Refusal]) -> dict[str, TableShare]:
        made: dict[str, TableShare] = {}
        for deliveries, places in part.pieces:
            for name, some in self._rows.by_table(deliveries, places, refusals):
                rows, kept = self._rows.rows(deliveries, some, refusals)
                made.setdefault(name, TableShare()).add(rows, deliveries, kept)
        return made

    def _write(self, write: Write, made: dict[str, TableShare]) -> list[Refusal]:
        return [
            refusal(*share.origin(refused.at), refused.kind, refused.text)
            for name, share in made.items()
            for refused in write(name, self._sink.shape, share.rows)
        ]


class TableShare:
    """The rows of a part that go to one table, and where they come from."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._starts: list[int] = []
        self._origins: list[tuple[Deliveries, Sequence[int]]] = []

    def add(self, rows: list[Row], deliveries: Deliveries, places: Sequence[int]) -> None:
        self._starts.append(len(self.rows))
        self._origins.append((deliveries, places))
        self.rows += rows

    def origin(self, row: int) -> tuple[Deliveries, int]:
        number = bisect_right(self._starts, row) - 1
        deliveries, places = self._origins[number]
        return deliveries, places[row - self._starts[number]]
