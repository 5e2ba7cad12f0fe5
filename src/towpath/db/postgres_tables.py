"""Tables of the user's own in a schema of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from towpath.db.database import Row
from towpath.db.postgres import PostgresDatabase, translated
from towpath.db.postgres_stage import PostgresStage, from_stage, postgres_refusal
from towpath.db.table_marks import PartMark, TableMarks, Unit
from towpath.db.table_reading import TableReading
from towpath.db.table_sql import (
    DELIVERY_ID,
    STAGE,
    VERSION,
    Cells,
    RefusedRow,
    TableShape,
    check_columns,
    create_table,
    quoted,
    select_deliveries,
    write_apart,
)
from towpath.errors import DatabaseError

READ_AT_ONCE = 10_000


class PostgresTables(TableReading):
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
        insert = from_stage(STAGE, table, shape).encode()
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
                return write_apart(rows, 0, write, postgres_refusal)
            except psycopg.Error as error:
                raise translated(error, self._database.url) from error

    def _staged(self, table: str, names: str) -> psycopg.Connection[Row]:
        """A connection that has an empty table of the same columns; one for each portion would bloat the catalogues."""
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
        """A place for the rows of one unit, until they go to their tables together."""
        return PostgresStage(self._database, shape)

    def begin_unit(self, unit: Unit, launch: int) -> dict[int, PartMark]:
        """Keep older writers out, and say what of this unit is in."""
        for table, statement in self.marks.making().items():
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

    def _number(self, table: str, statement: str) -> int:
        return int(self._run(statement)[0][0]) if self._columns(table) else 0

    def _run(self, statement: str, params: Sequence[Any] | None = None) -> list[Row]:
        try:
            cursor = self._database.connection().execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise translated(error, self._database.url) from error
