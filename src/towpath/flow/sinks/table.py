"""Tables of SQLite and PostgreSQL as a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from towpath.db.table_sql import DELIVERY_ID, VERSION, TableShape, is_table_name
from towpath.db.tables import Tables, open_tables
from towpath.errors import BadFlow, CommitUnknown, DatabaseError, DatabaseUnavailable, NeedsPerson, SinkError
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import bounded
from towpath.flow.sinks.sink import Deliveries, Place, Refusal
from towpath.flow.sinks.table_cells import BadCell, Cells
from towpath.flow.template import Template
from towpath.logs import without_password
from towpath.settings import Settings

ID = "id"
DOCUMENT = "document"
NOT_NULL = " not null"
# A delivery has one version for ever, so the two together are as unique as the id. The version stands first because it
# grows with the input: new rows come to the end of the index. Digests alone would scatter over it, five times slower.
ONCE = (VERSION, DELIVERY_ID)
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

    The password of PostgreSQL belongs in the variable `PGPASSWORD` or in `~/.pgpass`, on every worker too.

    A missing table is made, with the columns `id`, `delivery_id`, `version` and `document`, the whole record as JSON.
    `columns={"order_id": "bigint", "total": "numeric"}` adds columns that are filled from the fields of the same name,
    nested values as JSON. With `document=False` the whole is not kept, and a record with a field that has no column is
    refused: nothing gets lost without a word.

    A row is added once for each delivery, however often it is tried (`mode="insert"`): a table that was there before
    needs a unique index on `version, delivery_id`. With a `key`, the names of
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
    unique = tuple(key or (ID,)) if chosen == "upsert" else ONCE
    shape = _shape(typed, unique, document, chosen)
    if unknown := [name for name in unique if name not in shape.columns]:
        raise BadFlow(f"key: there is no column {unknown[0]!r}; name it in columns=")
    if chosen == "insert" and key:
        raise BadFlow("mode='insert' adds every delivery; a key has no meaning there")
    name = Template(target)
    if name.is_fixed and not is_table_name(name.filler()({})):
        raise BadFlow(f"{target!r} cannot be the name of a table: 1 to 63 bytes, not sqlite_…")
    if url.startswith(SQLITE):
        # The workers may stand in another directory than the flow file.
        url = SQLITE + os.path.abspath(os.path.expanduser(url.removeprefix(SQLITE)))
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
    may_refuse = True

    def check(self, settings: Settings) -> None:
        """Make the table, or look whether it has the columns."""
        tables = self.open()
        try:
            with sink_errors(self.where):
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
        with sink_errors(self.where):
            return open_tables(self.url, self.schema)

    @property
    def where(self) -> str:
        """For errors."""
        return f"table {self.target} in {without_password(self.url)}"

    def __str__(self) -> str:
        return f"table {self.target}"


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
        for name, places in deliveries.by_target().items():
            if not is_table_name(name):
                text = f"{name[:80]!r} cannot be the name of a table: 1 to 63 bytes, not sqlite_…"
                refusals += [_refusal(deliveries, at, "BadTableName", text) for at in places]
                continue
            with sink_errors(self._sink.where):
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
    ) -> tuple[list[Sequence[Any]], Sequence[int]]:
        """The rows of these places; of those that make none, why."""
        if not self._sink.fields:
            texts = [deliveries.payloads[at].decode() for at in places]
            columns = (deliveries.ids, deliveries.delivery_ids, deliveries.versions)
            return list(zip(*([column[at] for at in places] for column in columns), texts, strict=True)), places
        rows: list[Sequence[Any]] = []
        kept: list[int] = []
        has_id, has_document = ID not in self._sink.fields, self._sink.has_document
        payloads, cells_of = deliveries.payloads, self._cells.of
        for at in places:
            payload = payloads[at]
            try:
                row: list[Any] = [deliveries.ids[at]] if has_id else []
                row += (deliveries.delivery_ids[at], deliveries.versions[at], *cells_of(payload))
                if has_document:
                    row.append(payload.decode())
                self._check_key(row)
            except BadCell as error:
                refusals.append(_refusal(deliveries, at, type(error).__name__, str(error)))
            else:
                rows.append(row)
                kept.append(at)
        return rows, kept

    def _check_key(self, row: Sequence[Any]) -> None:
        for number in self._key:
            if row[number] is None:
                raise BadCell(f"the key column {list(self._sink.shape.columns)[number]!r} has no value")


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
