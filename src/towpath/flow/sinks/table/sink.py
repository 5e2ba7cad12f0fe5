"""Tables of SQLite and PostgreSQL as a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from towpath.core.logs import without_password
from towpath.db.tables.model import DELIVERY_ID, VERSION, TableShape, is_table_name
from towpath.db.tables.postgres import PostgresTables
from towpath.db.tables.sqlite import SqliteTables
from towpath.db.tables.tables import open_tables
from towpath.errors import BadFlow
from towpath.flow.sinks.sink import WriterContext
from towpath.flow.sinks.table.postgres_writer import TableStagedWriter
from towpath.flow.sinks.table.rows import ID, sink_errors
from towpath.flow.sinks.table.writer import TablePartWriter, TableWriter
from towpath.flow.sinks.template import Template
from towpath.settings import Settings

DOCUMENT = "document"
NOT_NULL = " not null"
# A delivery has one version for ever, so the two together are as unique as the id. The version stands first because it
# grows with the input: new rows come to the end of the index. Digests alone would scatter over it, five times slower.
ONCE = (VERSION, DELIVERY_ID)
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

    A flow that delivers exactly once keeps two small tables of its own beside yours, `towpath_mark` and
    `towpath_launch`. A row is added once for each delivery, however often it is tried (`mode="insert"`): a table that
    was there before needs a unique index on `version, delivery_id`. With a `key`, the names of columns, or with an
    `id`, the newest record of a key is kept (`mode="upsert"`). A row that the database will not take, for its type or
    for a constraint, is refused alone.
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

    def writer(self, place: WriterContext) -> TableWriter | TablePartWriter | TableStagedWriter:
        tables = self.open()
        if not place.strategy.has_marks:
            return TableWriter(self, tables)
        try:
            if isinstance(tables, PostgresTables):
                return TableStagedWriter(self, tables, place)
            return TablePartWriter(self, tables, place)
        except BaseException:
            tables.close()
            raise

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith(SQLITE)

    def open(self) -> SqliteTables | PostgresTables:
        """The tables, for writing or for looking into them."""
        with sink_errors(self.where):
            return open_tables(self.url, self.schema)

    @property
    def where(self) -> str:
        """For errors."""
        return f"table {self.target} in {without_password(self.url)}"

    def __str__(self) -> str:
        return f"table {self.target}"


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
