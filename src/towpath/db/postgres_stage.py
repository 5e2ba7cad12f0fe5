"""The rows of one unit on their way to PostgreSQL: copied beside the tables as they come, moved there together.

Nothing of a unit can be seen before all of it is. The place beside is a temporary table of the connection for each
target: not logged, on the server's disk and not in our memory, and gone with the connection. It has the types of the
target and those of its rules that look at one row alone (NOT NULL, CHECK), so that most of what will be refused is
refused while it is copied. What only the target can tell (a second unique index, a foreign key, a trigger) shows when
the rows are moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg

from towpath.db.database import Row, Transaction
from towpath.db.postgres import PostgresDatabase, translated
from towpath.db.table_marks import Why
from towpath.db.table_sql import (
    DELIVERY_ID,
    STAGE,
    VERSION,
    Cells,
    RefusedRow,
    TableShape,
    on_conflict,
    quoted,
    write_apart,
)
from towpath.errors import DatabaseUnavailable

# Errors that lie in one row: data exceptions, integrity violations, and a type that does not fit.
_ROW_STATES = ("22", "23", "42804")
# A process that is stopped in the middle of a move has locks that its successor waits for. The server ends it sooner
# than the successor loses patience.
IDLE_TIMEOUT_MS = 30_000

# What a table asks of each row, as far as it lies in the columns that are written.
_RULES = """with target as (select to_regclass(%s)::oid as id), written as (
    select attnum, attname, attnotnull from pg_attribute, target where attrelid = id and attname = any(%s)
)
select format('alter column %%I set not null', attname) from written where attnotnull
union all
select format('add constraint %%I %%s', conname, pg_get_constraintdef(oid)) from pg_constraint, target
where conrelid = id and contype = 'c' and conkey <@ (select array_agg(attnum) from written)"""


class PostgresStage:
    """The rows of one unit, for any number of tables of one shape. Lives as long as the connection."""

    def __init__(self, database: PostgresDatabase, shape: TableShape) -> None:
        self._database = database
        self._shape = shape
        self._connection = database.connection()
        self._names = ", ".join(map(quoted, shape.columns))
        self._staged: dict[str, str] = {}  # the name of the table beside, by that of the table

    def add(self, table: str, rows: Sequence[Cells]) -> list[RefusedRow]:
        """Copy these; says which cannot be rows of the table."""
        stage = self._staged.get(table) or self._begin(table)
        copy = f"copy {stage} ({self._names}) from stdin".encode()
        with self.transaction() as tx:

            def write(some: Sequence[Cells]) -> None:
                with tx.part(), self._connection.cursor() as cursor, cursor.copy(copy) as stream:
                    for row in some:
                        stream.write_row(row)

            refused = write_apart(rows, 0, write, postgres_refusal)
        return [RefusedRow(at, kind, text.replace(stage, table)) for at, kind, text in refused]

    def move(self, tx: Transaction) -> dict[bytes, Why]:
        """To the tables, in the transaction that is open. Says what was refused, by delivery id.

        Tables come by their names and rows by their keys, so that two who write the same keys wait for each other and
        not in a circle.
        """
        self._execute(f"set local idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}")
        refused: dict[bytes, Why] = {}
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

    def _move(self, tx: Transaction, table: str, stage: str) -> dict[bytes, Why]:
        try:
            with tx.part():
                self._execute(from_stage(stage, table, self._shape))
        except psycopg.Error as error:
            if postgres_refusal(error) is None:
                raise
            return self._move_apart(tx, table, stage)
        return {}

    def _move_apart(self, tx: Transaction, table: str, stage: str) -> dict[bytes, Why]:
        """All rows but those that the table will not take: halves of the rows in the order of their keys."""
        key = ", ".join(map(quoted, self._shape.key))
        places = self._execute(f"select ctid::text from {stage} order by {key}, {VERSION}")  # noqa: S608 - quoted names

        def write(some: Sequence[Cells]) -> None:
            chosen = ",".join(f'"{place}"' for (place,) in some)
            with tx.part():
                self._execute(from_stage(stage, table, self._shape, f"where ctid = any('{{{chosen}}}'::tid[])"))

        refused = write_apart(places, 0, write, postgres_refusal)
        find = f"select {DELIVERY_ID} from {stage} where ctid = %s::tid"  # noqa: S608 - a name of ours
        return {bytes(self._execute(find, places[at][0])[0][0]): Why(kind, text) for at, kind, text in refused}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, self._database.url) from error

    def _execute(self, statement: str, *values: object) -> list[Row]:
        cursor = self._connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def from_stage(stage: str, table: str, shape: TableShape, which: str = "") -> str:
    """From the table beside into the table."""
    names, key = (", ".join(map(quoted, some)) for some in (shape.columns, shape.key))
    # One statement may not touch a row twice, so of the same key only the newest goes on.
    chosen = f"select distinct on ({key}) {names} from {stage} {which} order by {key}, {VERSION} desc"  # noqa: S608
    source = chosen if shape.is_upsert else f"select {names} from {stage} {which}"  # noqa: S608 - quoted names
    return f"insert into {quoted(table)} ({names}) {source} {on_conflict(table, shape)}"


def postgres_refusal(error: Exception) -> str | None:
    """The kind of an error that is a row's; None when it is not."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.DataError) or (state and state.startswith(_ROW_STATES)):
        return type(error).__name__
    return None
