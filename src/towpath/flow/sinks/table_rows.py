"""From deliveries to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from towpath.db.table_sql import is_table_name
from towpath.flow.sinks.sink import Deliveries, Refusal
from towpath.flow.sinks.table_cells import BadCell, Cells
from towpath.flow.sinks.table_errors import refusal

if TYPE_CHECKING:
    from towpath.flow.sinks.table import TableSink

ID = "id"
Row = Sequence[Any]
V = TypeVar("V")


class TableRows:
    """Makes the rows of a sink's tables; of deliveries that make none, it says why."""

    def __init__(self, sink: TableSink) -> None:
        self._cells = Cells(sink.fields, may_leave_out=sink.has_document, is_sqlite=sink.is_sqlite)
        self._columns = list(sink.shape.columns)
        self._key = [self._columns.index(name) for name in sink.shape.key]
        self._has_fields = bool(sink.fields)
        self._has_id = ID not in sink.fields
        self._has_document = sink.has_document

    def by_table(
        self, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]
    ) -> Iterator[tuple[str, Sequence[int]]]:
        """The places of each table, in their order."""
        for name, some in _by_target(deliveries, places).items():
            if is_table_name(name):
                yield name, some
            else:
                text = f"{name[:80]!r} cannot be the name of a table: 1 to 63 bytes, not sqlite_… or Towpath's own"
                refusals += [refusal(deliveries, at, "BadTableName", text) for at in some]

    def rows(
        self, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]
    ) -> tuple[list[Row], Sequence[int]]:
        """The rows of these places, and the places of these rows."""
        if not self._has_fields:
            texts = map(bytes.decode, chosen(deliveries.payloads, places))
            columns = (deliveries.ids, deliveries.delivery_ids, deliveries.versions)
            return list(zip(*(chosen(column, places) for column in columns), texts, strict=True)), places
        rows: list[Row] = []
        kept: list[int] = []
        payloads, cells_of = deliveries.payloads, self._cells.of
        for at in places:
            payload = payloads[at]
            try:
                row: list[Any] = [deliveries.ids[at]] if self._has_id else []
                row += (deliveries.delivery_ids[at], deliveries.versions[at], *cells_of(payload))
                if self._has_document:
                    row.append(payload.decode())
                self._check_key(row)
            except BadCell as error:
                refusals.append(refusal(deliveries, at, type(error).__name__, str(error)))
            else:
                rows.append(row)
                kept.append(at)
        return rows, kept

    def _check_key(self, row: Row) -> None:
        for number in self._key:
            if row[number] is None:
                raise BadCell(f"the key column {self._columns[number]!r} has no value")


def chosen(column: Sequence[V], places: Sequence[int]) -> Sequence[V]:
    """The values at these places."""
    if isinstance(places, range):
        return column[places.start : places.stop]
    return [column[at] for at in places]


def _by_target(deliveries: Deliveries, places: Sequence[int]) -> dict[str, Sequence[int]]:
    targets = set(chosen(deliveries.targets, places))
    if len(targets) == 1:
        return {targets.pop(): places}
    found: dict[str, list[int]] = {}
    for at in places:
        found.setdefault(deliveries.targets[at], []).append(at)
    return dict(found)
