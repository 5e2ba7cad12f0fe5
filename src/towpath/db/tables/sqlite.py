"""The user's tables in a SQLite file."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from towpath.db.database import Transaction
from towpath.db.sqlite.database import SqliteDatabase, translated
from towpath.db.tables.model import (
    DELIVERY_ID,
    VERSION,
    Cells,
    PartMark,
    RefusedRow,
    TableMarks,
    Tables,
    TableShape,
    TableUnit,
    check_columns,
    create_table,
    on_conflict,
    quoted,
    select_deliveries,
    write_apart,
)

# What a strict table of SQLite calls the types. Others are kept as they come.
_SQLITE_TYPES = (
    (re.compile(r"(big|small)?int(eger)?|int[248]|bool(ean)?"), "integer"),
    (re.compile(r"real|float[48]?|double precision|double|(numeric|decimal)(\(.*\))?"), "real"),
    (re.compile(r"text|string|(var)?char(acter)?( varying)?(\(.*\))?|jsonb?|date|time.*|uuid"), "text"),
    (re.compile(r"bytea|blob"), "blob"),
)

Write = Callable[[str, TableShape, Sequence[Cells]], list[RefusedRow]]


class SqliteTables(Tables):
    """Tables in a SQLite file. Made as strict ones, so that a text in a column of numbers is an error."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.marks = TableMarks(database)

    def create(self, table: str, shape: TableShape) -> None:
        statement = create_table(table, shape, _sqlite_type, " strict")
        if not self._has(table):
            with self._database.transaction():
                self._database.query(statement)
        found = {row[1] for row in self._database.query(f"pragma table_info({quoted(table)})")}
        check_columns(self._database.url, table, shape, found)

    def write(self, table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
        with self.transaction() as (_, write):
            return write(table, shape, rows)

    @contextmanager
    def transaction(self) -> Iterator[tuple[Transaction, Write]]:
        """One transaction, and a function that writes rows in it, without those that the database refuses."""
        connection = self._database.connection()
        with self._database.transaction() as tx:

            def write(table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
                statement = _insert(table, shape)

                def some(part: Sequence[Cells]) -> None:
                    with tx.part():
                        connection.executemany(statement, part)

                try:
                    return write_apart(rows, 0, some, _refusal)
                except sqlite3.Error as error:
                    raise translated(error, self._database.url) from error

            yield tx, write

    def begin_unit(self, unit: TableUnit, launch: int) -> dict[int, PartMark]:
        """Return the marks of the parts that are in. Older writers are kept out from the first part on."""
        for table, statement in self.marks.create_statements().items():
            if not self._has(table):
                with self._database.transaction():
                    self._database.query(statement)
        return self.marks.of_unit(unit, launch)

    def names(self) -> list[str]:
        statement = (
            "select s.name from sqlite_schema s join pragma_table_info(s.name) c "
            "where s.type = 'table' and c.name in (?, ?) group by s.name having count(*) = 2 order by 1"
        )
        return [name for (name,) in self._database.query(statement, (DELIVERY_ID, VERSION))]

    def count(self, table: str) -> int:
        statement = f"select count(*) from {quoted(table)}"  # noqa: S608 - quoted name
        return int(self._database.query(statement)[0][0]) if self._has(table) else 0

    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        if self._has(table):
            for id, version in self._database.execute(self._database.connection(), select_deliveries(table), ()):
                yield bytes(id or b""), version

    def close(self) -> None:
        self._database.close()

    def _has(self, table: str) -> bool:
        statement = "select 1 from sqlite_schema where type in ('table', 'view') and name = ?"
        return bool(self._database.query(statement, (table,)))


def _insert(table: str, shape: TableShape) -> str:
    marks = ", ".join("?" * len(shape.columns))
    names = ", ".join(map(quoted, shape.columns))
    into = f"insert into {quoted(table)} ({names}) values ({marks}) "  # noqa: S608 - quoted names
    return into + on_conflict(table, shape)


def _sqlite_type(declared: str) -> str:
    kind, _, rest = declared.partition(" not null")
    for pattern, name in _SQLITE_TYPES:
        if pattern.fullmatch(kind.strip().lower()):
            return name + (" not null" if "not null" in declared else "") + rest
    return "any" + (" not null" if "not null" in declared else "")


def _refusal(error: Exception) -> str | None:
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | OverflowError):
        name = str(getattr(error, "sqlite_errorname", "unknown"))
        return type(error).__name__ if name == "unknown" else name  # Python does not know all names of SQLite
    return None
