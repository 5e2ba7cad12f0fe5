"""How migrations are written down, locked and compared on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
from psycopg import sql

from towpath.db.database import Database
from towpath.db.migrations import Migration, Target, known
from towpath.db.postgres import PostgresDatabase
from towpath.db.sqlite import SqliteDatabase
from towpath.errors import DatabaseError
from towpath.logs import without_password

VERSION_TABLE = """create table if not exists schema_version (
    number integer primary key, name text not null, applied_at text not null default current_timestamp)"""
ADVISORY_LOCK = 0x70772D6D  # "pw-m": any number that all Towpath processes share


class SqliteTarget:
    """One SQLite file."""

    def __init__(self, database: SqliteDatabase, folder: str) -> None:
        self._database = database
        self.folder = folder
        self.shown = database.url

    def applied(self) -> list[tuple[int, str]]:
        if not self._has("schema_version"):
            return []
        return self._database.query("select number, name from schema_version order by number")

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._database.transaction():
            yield

    def apply(self, migration: Migration) -> None:
        connection = self._database.connection()
        connection.execute(VERSION_TABLE)
        self._database.script(migration.text)
        connection.execute(
            "insert into schema_version (number, name) values (?, ?)", (migration.number, migration.name)
        )

    def catalogue(self) -> set[str]:
        rows = self._database.query(
            "select type, name, sql from sqlite_schema where name not like 'sqlite_%' and sql is not null"
        )
        return {f"{kind} {name}: {' '.join(text.split())}" for kind, name, text in rows}

    def fresh_catalogue(self) -> set[str]:
        with TemporaryDirectory() as directory:
            scratch = SqliteDatabase(Path(directory) / "fresh.db", is_beats=True)
            target = SqliteTarget(scratch, self.folder)
            try:
                with target.locked():
                    for migration in known(self.folder):
                        target.apply(migration)
                return target.catalogue()
            finally:
                scratch.close()

    def _has(self, table: str) -> bool:
        return bool(self._database.query("select 1 from sqlite_schema where name = ?", (table,)))


class PostgresTarget:
    """One schema of a PostgreSQL database."""

    folder = "postgres"

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.shown = without_password(database.url)

    def applied(self) -> list[tuple[int, str]]:
        connection = self._database.connection()
        found = connection.execute("select to_regclass('schema_version')").fetchone()
        if found is None or found[0] is None:
            return []
        rows = connection.execute("select number, name from schema_version order by number").fetchall()
        return [(int(number), str(name)) for number, name in rows]

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._database.transaction():
            connection = self._database.connection()
            connection.execute("set local lock_timeout = 0")
            connection.execute("select pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
            name = self._database.schema
            # Asked first: "if not exists" needs the right to create schemas even when there is nothing to create.
            if connection.execute("select 1 from pg_namespace where nspname = %s", (name,)).fetchone() is None:
                connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
            yield

    def apply(self, migration: Migration) -> None:
        self._database.script(VERSION_TABLE)
        self._database.script(migration.text)
        self._database.connection().execute(
            "insert into schema_version (number, name) values (%s, %s)", (migration.number, migration.name)
        )

    def catalogue(self) -> set[str]:
        return self._describe(self._database.connection(), self._database.schema)

    def fresh_catalogue(self) -> set[str]:
        fresh = f"towpath_fresh_{uuid4().hex[:12]}"
        connection = self._database.connect()
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(sql.SQL("create schema {}").format(sql.Identifier(fresh)))
                connection.execute(sql.SQL("set local search_path = {}").format(sql.Identifier(fresh)))
                for text in (VERSION_TABLE, *(m.text for m in known(self.folder))):
                    connection.execute(text)
                return self._describe(connection, fresh)
        finally:
            connection.close()

    def _describe(self, connection: psycopg.Connection[tuple[object, ...]], schema: str) -> set[str]:
        lines: set[str] = set()
        for statement in _CATALOGUE:
            for row in connection.execute(statement, {"schema": schema}):
                lines.add(" ".join(str(part) for part in row).replace(f"{schema}.", ""))
        return lines


_CATALOGUE = (
    """select 'column', table_name, column_name, data_type, is_nullable, coalesce(column_default, '')
       from information_schema.columns where table_schema = %(schema)s""",
    "select 'index', indexname, indexdef from pg_indexes where schemaname = %(schema)s",
    """select 'constraint', conname, pg_get_constraintdef(oid) from pg_constraint
       where connamespace = %(schema)s::regnamespace and contype in ('c', 'p', 'u', 'f')""",
    """select 'function', proname, prosrc from pg_proc where pronamespace = %(schema)s::regnamespace""",
)


def targets(database: Database) -> list[Target]:
    """All that has to be migrated for this database."""
    match database:
        case SqliteDatabase():
            return [SqliteTarget(database, "sqlite"), SqliteTarget(database.beats, "sqlite_beats")]
        case PostgresDatabase():
            return [PostgresTarget(database)]
    raise DatabaseError(f"no migrations for {type(database).__name__}")
