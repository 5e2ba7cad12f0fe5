"""Tables of the user's own, as a sink of flows: made when absent, written in portions, read back for the audit.

Their names and columns are the user's, so the SQL is put together here and not in a file: every name is quoted, every
value is a parameter. Of one portion the rows that the database will not take are found by halves, inside savepoints;
the others are written.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psycopg

from towpath.db.database import Row
from towpath.db.open import SQLITE_PREFIX
from towpath.db.postgres import PostgresDatabase
from towpath.db.postgres import translated as postgres_translated
from towpath.db.sqlite import SqliteDatabase
from towpath.db.sqlite import translated as sqlite_translated
from towpath.errors import DatabaseError, DatabaseUnavailable

Cells = Sequence[Any]  # of one row, in the order of the columns

LOCK_TIMEOUT_S = 60.0
READ_AT_ONCE = 10_000
MAX_NAME_BYTES = 63  # PostgreSQL cuts off what is beyond, without a word

DELIVERY_ID = "delivery_id"
VERSION = "version"
STAGE = "towpath_stage"

# What a strict table of SQLite calls the types. Others are kept as they come.
_SQLITE_TYPES = (
    (re.compile(r"(big|small)?int(eger)?|int[248]|bool(ean)?"), "integer"),
    (re.compile(r"real|float[48]?|double precision|double|(numeric|decimal)(\(.*\))?"), "real"),
    (re.compile(r"text|string|(var)?char(acter)?( varying)?(\(.*\))?|jsonb?|date|time.*|uuid"), "text"),
    (re.compile(r"bytea|blob"), "blob"),
)
# Errors that lie in one row: data exceptions, integrity violations, and a type that does not fit.
_ROW_STATES = ("22", "23", "42804")


class RefusedRow(NamedTuple):
    """A row that the database will not take, by its place among those that it was given."""

    at: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TableShape:
    """Which columns a table has, and what a second row of the same key does."""

    columns: Mapping[str, str]  # name to type; all are written
    key: tuple[str, ...]  # unique
    is_upsert: bool  # the higher version stays; otherwise the first row does


def quoted(name: str) -> str:
    """A name as both databases take it, whatever is in it."""
    if "\x00" in name or not name:
        raise ValueError("a name has at least one character and no NUL")
    return '"' + name.replace('"', '""') + '"'


def is_table_name(name: str) -> bool:
    """Whether both databases can have a table of that name."""
    plain = name.strip() and "\x00" not in name and not name.lower().startswith("sqlite_") and name != STAGE
    return bool(plain) and len(name.encode()) <= MAX_NAME_BYTES


class Tables(Protocol):
    """The user's tables in one database. Used by one thread."""

    def create(self, table: str, shape: TableShape) -> None:
        """Make the table when it is absent; `DatabaseError` when it is there without the columns that are needed."""

    def write(self, table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
        """Write these in one transaction, without those that the database refuses."""

    def count(self, table: str) -> int:
        """How many rows the table has; 0 when there is none of that name."""

    def existing(self, table: str, delivery_ids: Collection[bytes]) -> dict[bytes, int]:
        """Those of the delivery ids that are there, with their versions. Reads the whole table: ask for many."""

    def duplicates(self, table: str) -> int:
        """How many rows have a delivery id that another row has too."""

    def names(self) -> list[str]:
        """The tables that could hold deliveries: those with the columns for their ids and versions."""

    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        """Delivery id and version of every row, in no order."""

    def close(self) -> None:
        """Let go of the connection."""


def open_tables(url: str, schema: str) -> Tables:
    """The tables behind a URL. Nothing is asked of the server yet."""
    if not url.startswith(SQLITE_PREFIX):
        return PostgresTables(PostgresDatabase(url, schema, LOCK_TIMEOUT_S))
    path = Path(url.removeprefix(SQLITE_PREFIX)).expanduser().absolute()
    if not path.parent.is_dir():
        raise DatabaseUnavailable(f"{url}: the directory {path.parent} does not exist; make it first")
    return SqliteTables(SqliteDatabase(path, "full", LOCK_TIMEOUT_S))


def _create(table: str, shape: TableShape, types: Callable[[str], str], ending: str) -> str:
    columns = ", ".join(f"{quoted(name)} {types(kind)}" for name, kind in shape.columns.items())
    key = ", ".join(map(quoted, shape.key))
    return f"create table if not exists {quoted(table)} ({columns}, unique ({key})){ending}"


def _on_conflict(table: str, shape: TableShape) -> str:
    key = ", ".join(map(quoted, shape.key))
    if not shape.is_upsert:
        return f"on conflict ({key}) do nothing"
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in shape.columns)
    # As `external_gte` of an index: the same version again is a repeat, and does no harm.
    return f"on conflict ({key}) do update set {changes} where excluded.{VERSION} >= {quoted(table)}.{VERSION}"


def _apart(
    rows: Sequence[Cells],
    first: int,
    write: Callable[[Sequence[Cells]], None],
    refusal: Callable[[Exception], str | None],
) -> list[RefusedRow]:
    """Write all rows but those that cannot be, found by halves. `refusal` names an error that is a row's."""
    if not rows:
        return []
    try:
        write(rows)
    except (sqlite3.Error, psycopg.Error, OverflowError) as error:
        kind = refusal(error)
        if kind is None:
            raise
        if len(rows) == 1:
            return [RefusedRow(first, kind, str(error).strip())]
    else:
        return []
    half = len(rows) // 2
    return [*_apart(rows[:half], first, write, refusal), *_apart(rows[half:], first + half, write, refusal)]


class SqliteTables:
    """Tables in a SQLite file. Made as strict ones, so that a text in a column of numbers is an error."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def create(self, table: str, shape: TableShape) -> None:
        statement = _create(table, shape, _sqlite_type, " strict")
        if not self._has(table):
            with self._database.transaction():
                self._database.query(statement)
        found = {row[1] for row in self._database.query(f"pragma table_info({quoted(table)})")}
        _check_columns(self._database.url, table, shape, found)

    def write(self, table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
        marks = ", ".join("?" * len(shape.columns))
        names = ", ".join(map(quoted, shape.columns))
        into = f"insert into {quoted(table)} ({names}) values ({marks}) "  # noqa: S608 - quoted names
        statement = into + _on_conflict(table, shape)
        connection = self._database.connection()
        with self._database.transaction() as tx:

            def write(some: Sequence[Cells]) -> None:
                with tx.part():
                    connection.executemany(statement, some)

            try:
                return _apart(rows, 0, write, _sqlite_refusal)
            except sqlite3.Error as error:
                raise sqlite_translated(error, self._database.url) from error

    def count(self, table: str) -> int:
        return self._number(table, f"select count(*) from {quoted(table)}")  # noqa: S608 - quoted name

    def existing(self, table: str, delivery_ids: Collection[bytes]) -> dict[bytes, int]:
        return dict(_wanted(self.scan(table), delivery_ids))

    def duplicates(self, table: str) -> int:
        return self._number(table, _duplicates(table))

    def names(self) -> list[str]:
        statement = (
            "select s.name from sqlite_schema s join pragma_table_info(s.name) c "
            "where s.type = 'table' and c.name in (?, ?) group by s.name having count(*) = 2 order by 1"
        )
        return [name for (name,) in self._database.query(statement, (DELIVERY_ID, VERSION))]

    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        if self._has(table):
            for id, version in self._database.execute(self._database.connection(), _scan(table), ()):
                yield bytes(id or b""), version

    def close(self) -> None:
        self._database.close()

    def _has(self, table: str) -> bool:
        statement = "select 1 from sqlite_schema where type in ('table', 'view') and name = ?"
        return bool(self._database.query(statement, (table,)))

    def _number(self, table: str, statement: str) -> int:
        return int(self._database.query(statement)[0][0]) if self._has(table) else 0


class PostgresTables:
    """Tables in one schema of PostgreSQL. Rows are copied beside the table, and go from there in one statement."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._stage: tuple[object, str, str] | None = None

    def create(self, table: str, shape: TableShape) -> None:
        if not self._columns(table):
            try:
                self._run(_create(table, shape, lambda kind: kind, ""))
            except DatabaseError:
                # Two that make a table at the same moment: one of them fails, and it is there.
                if not self._columns(table):
                    raise
        _check_columns(f"schema {self._database.schema}", table, shape, self._columns(table))

    def write(self, table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
        names = ", ".join(map(quoted, shape.columns))
        insert = _from_stage(table, shape, names).encode()
        copy = f"copy {STAGE} ({names}) from stdin".encode()
        connection = self._staged(table, names)
        is_used = False
        with self._database.transaction() as tx:

            def write(some: Sequence[Cells]) -> None:
                nonlocal is_used
                with tx.part():
                    if is_used:
                        connection.execute(f"truncate {STAGE}".encode())
                    with connection.cursor() as cursor, cursor.copy(copy) as stream:
                        for row in some:
                            stream.write_row(row)
                    connection.execute(insert)
                is_used = True

            try:
                return _apart(rows, 0, write, _postgres_refusal)
            except psycopg.Error as error:
                raise postgres_translated(error, self._database.url) from error

    def _staged(self, table: str, names: str) -> psycopg.Connection[Row]:
        """A connection that has an empty table of the same columns; one for each portion would bloat the catalogues."""
        connection = self._database.connection()
        if self._stage != (connection, table, names):
            self._run(f"drop table if exists pg_temp.{STAGE}")
            columns = f"select {names} from {quoted(table)} limit 0"  # noqa: S608 - quoted names
            self._run(f"create temp table {STAGE} on commit delete rows as {columns}")
            self._stage = (connection, table, names)
        return connection

    def count(self, table: str) -> int:
        return self._number(table, f"select count(*) from {quoted(table)}")  # noqa: S608 - quoted name

    def existing(self, table: str, delivery_ids: Collection[bytes]) -> dict[bytes, int]:
        return dict(_wanted(self.scan(table), delivery_ids))

    def duplicates(self, table: str) -> int:
        return self._number(table, _duplicates(table))

    def names(self) -> list[str]:
        statement = (
            "select table_name from information_schema.columns where table_schema = %s and column_name in (%s, %s) "
            "group by table_name having count(*) = 2 order by 1"
        )
        return [name for (name,) in self._run(statement, [self._database.schema, DELIVERY_ID, VERSION])]

    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        if not self._columns(table):
            return
        connection = self._database.connection()
        with connection.transaction(), connection.cursor("towpath_scan") as cursor:
            cursor.itersize = READ_AT_ONCE
            cursor.execute(_scan(table).encode())
            for id, version in cursor:
                yield bytes(id or b""), version

    def close(self) -> None:
        self._database.close()

    def _columns(self, table: str) -> set[str]:
        statement = "select column_name from information_schema.columns where table_schema = %s and table_name = %s"
        return {row[0] for row in self._run(statement, [self._database.schema, table])}

    def _number(self, table: str, statement: str) -> int:
        return int(self._run(statement)[0][0]) if self._columns(table) else 0

    def _run(self, statement: str, params: Sequence[Any] | None = None) -> list[Row]:
        try:
            cursor = self._database.connection().execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise postgres_translated(error, self._database.url) from error


def _from_stage(table: str, shape: TableShape, names: str) -> str:
    key = ", ".join(map(quoted, shape.key))
    # One statement may not touch a row twice, so of the same key only the newest goes on.
    chosen = f"select distinct on ({key}) {names} from {STAGE} order by {key}, {VERSION} desc"  # noqa: S608
    source = chosen if shape.is_upsert else f"select {names} from {STAGE}"  # noqa: S608 - quoted names
    return f"insert into {quoted(table)} ({names}) {source} {_on_conflict(table, shape)}"


def _scan(table: str) -> str:
    return f"select {DELIVERY_ID}, {VERSION} from {quoted(table)}"  # noqa: S608 - quoted name


def _wanted(rows: Iterable[tuple[bytes, int]], delivery_ids: Collection[bytes]) -> Iterator[tuple[bytes, int]]:
    wanted = frozenset(delivery_ids)
    return ((id, version) for id, version in rows if id in wanted)


def _duplicates(table: str) -> str:
    return f"select count(*) - count(distinct {DELIVERY_ID}) from {quoted(table)}"  # noqa: S608 - quoted name


def _check_columns(where: str, table: str, shape: TableShape, found: set[str]) -> None:
    missing = sorted(set(shape.columns) - found)
    if missing:
        raise DatabaseError(
            f"{where}: table {table!r} lacks the columns {', '.join(missing)}; add them, or name another table"
        )


def _sqlite_type(declared: str) -> str:
    kind, _, rest = declared.partition(" not null")
    for pattern, name in _SQLITE_TYPES:
        if pattern.fullmatch(kind.strip().lower()):
            return name + (" not null" if "not null" in declared else "") + rest
    return "any" + (" not null" if "not null" in declared else "")


def _sqlite_refusal(error: Exception) -> str | None:
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | OverflowError):
        return getattr(error, "sqlite_errorname", type(error).__name__)
    return None


def _postgres_refusal(error: Exception) -> str | None:
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.DataError) or (state and state.startswith(_ROW_STATES)):
        return type(error).__name__
    return None
