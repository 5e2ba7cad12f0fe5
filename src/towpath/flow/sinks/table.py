"""Tables of SQLite and PostgreSQL as a sink."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from towpath.db.tables import DELIVERY_ID, VERSION, Tables, TableShape, is_table_name, open_tables
from towpath.errors import BadFlow, CommitUnknown, DatabaseError, DatabaseUnavailable, SinkError
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import bounded
from towpath.flow.sinks.sink import Deliveries, NeedsPerson, Place, Refusal
from towpath.flow.sinks.table_cells import BadCell, Cells
from towpath.flow.template import Template
from towpath.logs import without_password
from towpath.settings import Settings

ID = "id"
DOCUMENT = "document"
NOT_NULL = " not null"
# On SQLite a transaction holds up all other writers: this much takes some tens of milliseconds.
PORTION_ROWS = 5_000
PORTION_BYTES = 4 << 20
SQLITE = "sqlite:///"

_TYPE = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*( [a-zA-Z]+)*(\(\d+(, ?\d+)?\))?( not null)?")


def table(
    target: str,
    *,
    url: str,
    schema: str = "public",
    id: str | None = None,
    key: Sequence[str] | None = None,
    mode: Literal["insert", "upsert"] | None = None,
    columns: Mapping[str, str] | None = None,
    document: bool = True,
) -> TableSink:
    """Rows of a table in SQLite (`sqlite:///path`) or PostgreSQL (`postgresql://…`, in `schema`).

    A missing table is made, with the columns `id`, `delivery_id`, `version` and `document`, the whole record as JSON.
    `columns={"order_id": "bigint", "total": "numeric"}` adds columns that are filled from the fields of the same name,
    nested values as JSON. With `document=False` the whole is not kept, and a record with a field that has no column is
    refused: nothing gets lost without a word.

    A row is added once for each delivery, however often it is tried (`mode="insert"`). With a `key`, the names of
    columns, or with an `id`, the newest record of a key is kept (`mode="upsert"`). A row that the database will not
    take, for its type or for a constraint, is refused alone.
    """
    typed = dict(columns or {})
    _check_columns(typed, document)
    chosen = mode or ("upsert" if key or id is not None else "insert")
    if chosen not in ("insert", "upsert"):
        raise BadFlow(f"mode is 'insert' or 'upsert', not {mode!r}")
    if not url.startswith((SQLITE, "postgresql://", "postgres://")):
        raise BadFlow("the url of a table is sqlite:///path or postgresql://user@host:port/database")
    unique = tuple(key or (ID,)) if chosen == "upsert" else (DELIVERY_ID,)
    shape = _shape(typed, unique, document, chosen)
    if unknown := [name for name in unique if name not in shape.columns]:
        raise BadFlow(f"key: there is no column {unknown[0]!r}; name it in columns=")
    if chosen == "insert" and key:
        raise BadFlow("mode='insert' adds every delivery; a key has no meaning there")
    name = Template(target)
    if name.is_fixed and not is_table_name(name.filler()({})):
        raise BadFlow(f"{target!r} cannot be the name of a table: 1 to 63 bytes, not sqlite_…")
    return TableSink(name, Template(id) if id is not None else None, url, schema, shape, tuple(typed), document)


@dataclass(frozen=True, slots=True)
class TableSink:
    """Made by `table`."""

    target: Template
    id: Template | None
    url: str = field(repr=False)  # may hold a password
    schema: str
    shape: TableShape
    fields: tuple[str, ...]
    has_document: bool
    routing = None
    is_idempotent = True

    def check(self, settings: Settings) -> None:
        """Make the table, or look whether it has the columns."""
        tables = self.open()
        try:
            with sink_errors(str(self)):
                if self.target.is_fixed:
                    tables.create(self.target.filler()({}), self.shape)
                else:
                    tables.count(ID)  # of any table: whether there is an answer
        finally:
            tables.close()

    def writer(self, place: Place) -> TableWriter:
        return TableWriter(self, self.open())

    def open(self) -> Tables:
        """The tables, for writing or for looking into them."""
        with sink_errors(str(self)):
            return open_tables(self.url, self.schema)

    def __str__(self) -> str:
        return f"table {self.target} in {without_password(self.url)}"


class TableWriter:
    """Writes portions as they come: each is a transaction of its own, and what is written twice is there once."""

    def __init__(self, sink: TableSink, tables: Tables) -> None:
        self._sink = sink
        self._tables = tables
        self._cells = Cells(sink.fields, may_leave_out=sink.has_document, is_sqlite=sink.url.startswith(SQLITE))
        self._key = [list(sink.shape.columns).index(name) for name in sink.shape.key]
        self._made: set[str] = set()

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        refusals: list[Refusal] = []
        for target, places in _by_target(deliveries, is_fixed=self._sink.target.is_fixed):
            name = self._sink.target.filler()({}) if self._sink.target.is_fixed else target
            if not is_table_name(name):
                text = f"{name[:80]!r} cannot be the name of a table: 1 to 63 bytes, not sqlite_…"
                refusals += [_refusal(deliveries, at, "BadTableName", text) for at in places]
                continue
            with sink_errors(str(self._sink)):
                refusals += self._write(name, deliveries, places)
        return refusals

    def finish(self) -> list[Refusal]:
        return []

    def close(self) -> None:
        self._tables.close()

    def _write(self, name: str, deliveries: Deliveries, places: Sequence[int]) -> list[Refusal]:
        if name not in self._made:
            self._tables.create(name, self._sink.shape)
            self._made.add(name)
        refusals: list[Refusal] = []
        for some in _portions(deliveries.payloads, places):
            rows, kept = self._rows(deliveries, some, refusals)
            for refused in self._tables.write(name, self._sink.shape, rows):
                refusals.append(_refusal(deliveries, kept[refused.at], refused.kind, refused.text))
        return refusals

    def _rows(
        self, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]
    ) -> tuple[list[tuple[Any, ...]], Sequence[int]]:
        """The rows of these places; of those that make none, why."""
        if not self._sink.fields and self._sink.has_document:
            return [
                (
                    deliveries.ids[at],
                    deliveries.delivery_ids[at],
                    deliveries.versions[at],
                    deliveries.payloads[at].decode(),
                )
                for at in places
            ], places
        rows, kept = [], []
        for at in places:
            try:
                rows.append(self._row(deliveries, at))
            except BadCell as error:
                refusals.append(_refusal(deliveries, at, type(error).__name__, str(error)))
            else:
                kept.append(at)
        return rows, kept

    def _row(self, deliveries: Deliveries, at: int) -> tuple[Any, ...]:
        cells = self._cells.of(deliveries.payloads[at])
        own = () if ID in self._sink.fields else (deliveries.ids[at],)
        document = (deliveries.payloads[at].decode(),) if self._sink.has_document else ()
        row = (*own, deliveries.delivery_ids[at], deliveries.versions[at], *cells, *document)
        for number, name in zip(self._key, self._sink.shape.key, strict=True):
            if row[number] is None:
                raise BadCell(f"the key column {name!r} has no value")
        return row


@contextmanager
def sink_errors(sink: str) -> Iterator[None]:
    """What goes wrong with a database, in the words of a flow."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise SinkError(ErrorCode.SINK_UNAVAILABLE, sink, str(error)) from error
    except CommitUnknown as error:
        raise SinkError(ErrorCode.NETWORK, sink, str(error)) from error
    except DatabaseError as error:
        raise NeedsPerson(ErrorCode.SINK_REFUSED, sink, str(error)) from error


def _shape(typed: dict[str, str], key: tuple[str, ...], document: bool, mode: str) -> TableShape:
    columns = {} if ID in typed else {ID: "text"}
    columns |= {DELIVERY_ID: "bytea not null", VERSION: "bigint not null", **typed}
    columns |= {DOCUMENT: "jsonb not null"} if document else {}
    for name in key:
        if name in columns and not columns[name].endswith(NOT_NULL):
            columns[name] += NOT_NULL
    return TableShape(columns, key, mode == "upsert")


def _check_columns(columns: dict[str, str], document: bool) -> None:
    if not columns and not document:
        raise BadFlow("document=False needs columns=: there would be nothing to store")
    for name, kind in columns.items():
        if name in (DELIVERY_ID, VERSION, DOCUMENT):
            raise BadFlow(f"{name!r} is a column of Towpath's own; name the field otherwise in a step before")
        if not is_table_name(name):
            raise BadFlow(f"{name!r} cannot be the name of a column: 1 to 63 bytes, not sqlite_…")
        if not _TYPE.fullmatch(kind):
            raise BadFlow(
                f"{kind!r} is not the type of a column, such as 'bigint', 'numeric(10, 2)' or 'text not null'"
            )


def _by_target(deliveries: Deliveries, *, is_fixed: bool) -> list[tuple[str, Sequence[int]]]:
    if is_fixed:
        return [("", range(len(deliveries)))]
    places: dict[str, list[int]] = {}
    for at, target in enumerate(deliveries.targets):
        places.setdefault(target, []).append(at)
    return list(places.items())


def _portions(payloads: Sequence[bytes], places: Sequence[int]) -> Iterator[Sequence[int]]:
    start = size = 0
    for number, at in enumerate(places):
        size += len(payloads[at])
        if number - start >= PORTION_ROWS or (size > PORTION_BYTES and number > start):
            yield places[start:number]
            start, size = number, len(payloads[at])
    if start < len(places):
        yield places[start:]


def _refusal(deliveries: Deliveries, at: int, kind: str, text: str) -> Refusal:
    return Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, kind, bounded(text))
