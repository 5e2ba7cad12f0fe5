"""The user's tables in a schema of PostgreSQL, and the place where rows wait until they are moved there.

`PostgresStage` keeps the rows of one unit: copied beside the tables as they come, moved there together. Nothing of a
unit can be seen before all of it is. The place beside is a temporary table of the connection for each target: not
logged, on the server's disk and not in our memory, and gone with the connection. It has the types of the target and
those of its rules that look at one row alone (NOT NULL, CHECK), so that most of what will be refused is refused while
it is copied. What only the target can tell (a second unique index, a foreign key, a trigger) shows when the rows are
moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from towpath.db.database import Row, Transaction
from towpath.db.postgres.database import PostgresDatabase, translated
from towpath.db.tables.model import (
    DELIVERY_ID,
    STAGE,
    VERSION,
    Cells,
    PartMark,
    RefusedRow,
    RowRefusal,
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
from towpath.errors import DatabaseError, DatabaseUnavailable

# A process that is stopped in the middle of a move has locks that its successor waits for. The server ends it sooner
# than the successor loses patience.
IDLE_TIMEOUT_MS = 30_000
READ_AT_ONCE = 10_000

# Errors that lie in one row: data exceptions, integrity violations, and a type that does not fit.
_ROW_STATES = ("22", "23", "42804")

# What a table asks of each row, as far as it lies in the columns that are written.
_RULES = """with target as (select to_regclass(%s)::oid as id), written as (
    select attnum, attname, attnotnull from pg_attribute, target where attrelid = id and attname = any(%s)
)
select format('alter column %%I set not null', attname) from written where attnotnull
union all
select format('add constraint %%I %%s', conname, pg_get_constraintdef(oid)) from pg_constraint, target
where conrelid = id and contype = 'c' and conkey <@ (select array_agg(attnum) from written)"""


class PostgresTables(Tables):
    """Tables in one schema of PostgreSQL. Rows are copied beside the table, and go from there in one statement."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._stage: tuple[object, str, str] | None = None
        self.marks = TableMarks(database)

    def create(self, table: str, shape: TableShape) -> None:
        self._make(table, create_table(table, shape, lambda kind: kind, ""))
        check_columns(f"schema {self._database.schema}", table, shape, self._columns(table))

    def write(self, table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
        names = ", ".join(map(quoted, shape.columns))
        insert = _insert_from_stage(STAGE, table, shape).encode()
        copy = f"copy {STAGE} ({names}) from stdin".encode()
        connection = self._staged(table, names)
        is_used = False
        with self._database.transaction() as tx:

            def write(some: Sequence[Cells]) -> None:
                nonlocal is_used
                with tx.part():
                    if is_used:
                        connection.execute(f"truncate {STAGE}".encode())
                    _copy(connection, copy, some)
                    connection.execute(insert)
                is_used = True

            try:
                return write_apart(rows, 0, write, _refusal)
            except psycopg.Error as error:
                raise translated(error, self._database.url) from error

    def _staged(self, table: str, names: str) -> psycopg.Connection[Row]:
        """A connection with an empty temporary table. One for each portion would bloat the catalogues."""
        connection = self._database.connection()
        if self._stage != (connection, table, names):
            self._run(f"drop table if exists pg_temp.{STAGE}")
            columns = f"select {names} from {quoted(table)} limit 0"  # noqa: S608 - quoted names
            self._run(f"create temp table {STAGE} on commit delete rows as {columns}")
            self._stage = (connection, table, names)
        return connection

    def names(self) -> list[str]:
        statement = (
            "select table_name from information_schema.columns where table_schema = %s and column_name in (%s, %s) "
            "group by table_name having count(*) = 2 order by 1"
        )
        return [name for (name,) in self._run(statement, [self._database.schema, DELIVERY_ID, VERSION])]

    def count(self, table: str) -> int:
        statement = f"select count(*) from {quoted(table)}"  # noqa: S608 - quoted name
        return int(self._run(statement)[0][0]) if self._columns(table) else 0

    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        if not self._columns(table):
            return
        connection = self._database.connection()
        with connection.transaction(), connection.cursor("towpath_scan") as cursor:
            cursor.itersize = READ_AT_ONCE
            cursor.execute(select_deliveries(table).encode())
            for id, version in cursor:
                yield bytes(id or b""), version

    def close(self) -> None:
        self._database.close()

    def stage(self, shape: TableShape) -> PostgresStage:
        """A stage for the rows of one unit, until they go to their tables together."""
        return PostgresStage(self._database, shape)

    def begin_unit(self, unit: TableUnit, launch: int) -> dict[int, PartMark]:
        """Keep older writers out, and return the marks of the parts that are in."""
        for table, statement in self.marks.create_statements().items():
            self._make(table, statement)
        if not self.marks.is_last(unit, launch):
            with self._database.transaction() as tx:
                # If the server forgets it in a crash, the transaction that moves the rows does it again.
                self._run("set local synchronous_commit = off")
                self.marks.come_last(tx, unit, launch)
        return self.marks.of_unit(unit, launch)

    def _make(self, table: str, statement: str) -> None:
        if not self._columns(table):
            try:
                self._run(statement)
            except DatabaseError:
                # Two that make a table at the same moment: one of them fails, and it is there.
                if not self._columns(table):
                    raise

    def _columns(self, table: str) -> set[str]:
        # Not from information_schema: its views take milliseconds.
        statement = (
            "select attname from pg_attribute a join pg_class c on c.oid = attrelid "
            "join pg_namespace s on s.oid = relnamespace "
            "where nspname = %s and relname = %s and attnum > 0 and not attisdropped"
        )
        return {row[0] for row in self._run(statement, [self._database.schema, table])}

    def _run(self, statement: str, params: Sequence[Any] | None = None) -> list[Row]:
        try:
            cursor = self._database.connection().execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise translated(error, self._database.url) from error


class PostgresStage:
    """The rows of one unit, for any number of tables of one shape. Lives as long as the connection."""

    def __init__(self, database: PostgresDatabase, shape: TableShape) -> None:
        self._database = database
        self._shape = shape
        self._connection = database.connection()
        self._names = ", ".join(map(quoted, shape.columns))
        self._staged: dict[str, str] = {}  # the name of the table beside, by that of the table

    def add(self, table: str, rows: Sequence[Cells]) -> list[RefusedRow]:
        """Copy these rows beside the table; returns those that the table would refuse."""
        stage = self._staged.get(table) or self._begin(table)
        copy = f"copy {stage} ({self._names}) from stdin".encode()
        with self.transaction() as tx:

            def write(some: Sequence[Cells]) -> None:
                with tx.part():
                    _copy(self._connection, copy, some)

            refused = write_apart(rows, 0, write, _refusal)
        return [RefusedRow(at, kind, text.replace(stage, table)) for at, kind, text in refused]

    def move(self, tx: Transaction) -> dict[bytes, RowRefusal]:
        """Move the rows to their tables in the open transaction. Returns what was refused, by delivery id.

        Tables come by their names and rows by their keys, so that two who write the same keys wait for each other and
        not in a circle.
        """
        self._execute(f"set local idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}")
        refused: dict[bytes, RowRefusal] = {}
        for table, stage in sorted(self._staged.items()):
            refused |= self._move(tx, table, stage)
        return refused

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction of the connection that has the rows."""
        if self._database.connection() is not self._connection:
            raise DatabaseUnavailable("the connection broke, and took along the rows that were on their way")
        with self._translated(), self._database.transaction() as tx:
            yield tx

    def _begin(self, table: str) -> str:
        stage = f"{STAGE}_{len(self._staged)}"
        columns = f"select {self._names} from {quoted(table)} limit 0"  # noqa: S608 - quoted names
        with self._translated():
            self._execute(f"create temp table {stage} as {columns}")
            rules = [rule for (rule,) in self._execute(_RULES, quoted(table), list(self._shape.columns))]
            # Rules that cannot stand here hold when the rows are moved.
            with suppress(psycopg.ProgrammingError, psycopg.NotSupportedError):
                if rules:
                    self._execute(f"alter table {stage} {', '.join(rules)}")
        self._staged[table] = stage
        return stage

    def _move(self, tx: Transaction, table: str, stage: str) -> dict[bytes, RowRefusal]:
        try:
            with tx.part():
                self._execute(_insert_from_stage(stage, table, self._shape))
        except psycopg.Error as error:
            if _refusal(error) is None:
                raise
            return self._move_apart(tx, table, stage)
        return {}

    def _move_apart(self, tx: Transaction, table: str, stage: str) -> dict[bytes, RowRefusal]:
        """Move all rows but those that the table refuses: by halves, in the order of their keys."""
        key = ", ".join(map(quoted, self._shape.key))
        places = self._execute(f"select ctid::text from {stage} order by {key}, {VERSION}")  # noqa: S608 - quoted names

        def write(some: Sequence[Cells]) -> None:
            chosen = ",".join(f'"{place}"' for (place,) in some)
            with tx.part():
                self._execute(_insert_from_stage(stage, table, self._shape, f"where ctid = any('{{{chosen}}}'::tid[])"))

        refused = write_apart(places, 0, write, _refusal)
        find = f"select {DELIVERY_ID} from {stage} where ctid = %s::tid"  # noqa: S608 - a name of ours
        return {bytes(self._execute(find, places[at][0])[0][0]): RowRefusal(kind, text) for at, kind, text in refused}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, self._database.url) from error

    def _execute(self, statement: str, *values: object) -> list[Row]:
        cursor = self._connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def _copy(connection: psycopg.Connection[Row], statement: bytes, rows: Sequence[Cells]) -> None:
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        for row in rows:
            stream.write_row(row)


def _insert_from_stage(stage: str, table: str, shape: TableShape, which: str = "") -> str:
    """The statement that moves rows from the temporary table into the table."""
    names, key = (", ".join(map(quoted, some)) for some in (shape.columns, shape.key))
    # One statement may not touch a row twice, so of the same key only the newest goes on.
    chosen = f"select distinct on ({key}) {names} from {stage} {which} order by {key}, {VERSION} desc"  # noqa: S608
    source = chosen if shape.is_upsert else f"select {names} from {stage} {which}"  # noqa: S608 - quoted names
    return f"insert into {quoted(table)} ({names}) {source} {on_conflict(table, shape)}"


def _refusal(error: Exception) -> str | None:
    """The kind of an error that lies in one row; None for any other error."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.DataError) or (state and state.startswith(_ROW_STATES)):
        return type(error).__name__
    return None
