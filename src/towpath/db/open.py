"""From a URL to an open database whose tables fit this code.

Migrations go forward only: numbered `.sql` files, each applied once, whole or not at all, by whichever process comes
first. The table `schema_version` says which have been applied. A database that knows more than this code is left alone.
`SqliteTarget` and `PostgresTarget` say how migrations are recorded, locked and compared on each database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from uuid import uuid4

import psycopg
from psycopg import sql

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.logs import without_password
from towpath.db.database import Database
from towpath.db.postgres.database import PostgresDatabase
from towpath.db.sqlite.database import SqliteDatabase
from towpath.errors import (
    DatabaseError,
    DatabaseUnavailable,
    NotInstalled,
    SchemaDiffers,
    SchemaError,
    SchemaTooNew,
    SchemaTooOld,
)
from towpath.settings import DatabaseSettings

OLDEST_SQLITE = (3, 38, 0)  # returning, strict tables and built-in JSON functions
SQLITE_PREFIX = "sqlite:///"

VERSION_TABLE = """create table if not exists schema_version (
    number integer primary key, name text not null, applied_at text not null default current_timestamp)"""
ADVISORY_LOCK = 0x70772D6D  # "pw-m": any number that all Towpath processes share
_CATALOGUE = (
    """select 'column', table_name, column_name, data_type, is_nullable, coalesce(column_default, '')
       from information_schema.columns where table_schema = %(schema)s""",
    "select 'index', indexname, indexdef from pg_indexes where schemaname = %(schema)s",
    """select 'constraint', conname, pg_get_constraintdef(oid) from pg_constraint
       where connamespace = %(schema)s::regnamespace and contype in ('c', 'p', 'u', 'f')""",
    """select 'function', proname, prosrc from pg_proc where pronamespace = %(schema)s::regnamespace""",
)


def open_database(settings: DatabaseSettings) -> Database:
    """The database with its tables upgraded, or checked when the settings say that upgrading is a person's job."""
    database = connect_database(settings)
    try:
        for target in targets(database):
            if settings.auto_upgrade:
                upgrade(target)
            else:
                check(target)
    except BaseException:
        database.close()
        raise
    return database


def connect_database(settings: DatabaseSettings) -> Database:
    """The database as it is; its tables are not looked at."""
    if not settings.url.startswith(SQLITE_PREFIX):
        return PostgresDatabase(settings.url, settings.db_schema, settings.lock_timeout_s)
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise NotInstalled(f"SQLite {needed} (found {sqlite3.sqlite_version})", "use a newer Python")
    return SqliteDatabase(path_of(settings.url), settings.synchronous, settings.lock_timeout_s)


def path_of(url: str) -> Path:
    """The file of a SQLite URL, in a directory that exists."""
    path = Path(url.removeprefix(SQLITE_PREFIX)).expanduser().absolute()
    if not path.parent.is_dir():
        raise DatabaseUnavailable(f"{url}: the directory {path.parent} does not exist; make it first")
    return path


def targets(database: Database) -> list[MigrationTarget]:
    """All that has to be migrated for this database."""
    match database:
        case SqliteDatabase():
            return [SqliteTarget(database, "sqlite"), SqliteTarget(database.beats, "sqlite_beats")]
        case PostgresDatabase():
            return [PostgresTarget(database)]
    raise DatabaseError(f"no migrations for {type(database).__name__}")


def upgrade(target: MigrationTarget) -> list[Migration]:
    """Apply what is missing and return it. Safe in several processes at once: one works, the others wait."""
    if not pending(target):
        return []
    done = []
    try:
        with target.locked():
            for migration in pending(target):
                target.apply(migration)
                done.append(migration)
            crash.here(CrashPoint.MIGRATE_BEFORE_COMMIT)
    except (sqlite3.Error, psycopg.Error) as error:
        raise SchemaError(f"{target.shown}: upgrading failed and was rolled back: {error}") from error
    crash.here(CrashPoint.MIGRATE_AFTER_COMMIT)
    return done


def check(target: MigrationTarget) -> None:
    """Raise `SchemaTooOld` or `SchemaTooNew` unless the database has exactly the migrations of this code."""
    missing = pending(target)
    if missing:
        raise SchemaTooOld(f"{target.shown} lacks {', '.join(m.name for m in missing)}: run `towpath schema upgrade`")


def verify(target: MigrationTarget) -> None:
    """Raise `SchemaDiffers` unless the tables are what the migrations make."""
    check(target)
    found, expected = target.catalogue(), target.fresh_catalogue()
    lines = [f"missing: {line}" for line in sorted(expected - found)]
    lines += [f"not ours: {line}" for line in sorted(found - expected)]
    if lines:
        raise SchemaDiffers(target.shown, lines)


def pending(target: MigrationTarget) -> list[Migration]:
    """The migrations that the database lacks. Raises `SchemaTooNew` when it has some that this code does not know."""
    ours = known(target.folder)
    theirs = target.applied()
    newest = ours[-1].number
    unknown = [name for number, name in theirs if number > newest]
    if unknown:
        raise SchemaTooNew(
            f"{target.shown} was upgraded to {unknown[-1]} by a newer Towpath; this one knows {ours[-1].name}. "
            "Install that version here, or use another database."
        )
    have = {number for number, _ in theirs}
    return [migration for migration in ours if migration.number not in have]


def known(folder: str) -> list[Migration]:
    """The migrations that this version of Towpath brings for one kind of database."""
    files = sorted((resources.files("towpath.db") / "schema" / folder).iterdir(), key=lambda file: file.name)
    return [
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".sql")
    ]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step forward."""

    number: int
    name: str
    text: str


class MigrationTarget(Protocol):
    """The target of a set of migrations: one SQLite file, or one schema of a PostgreSQL database."""

    folder: str
    shown: str

    def applied(self) -> list[tuple[int, str]]:
        """Number and name of the migrations that the database has, in order; none when it is empty."""

    def locked(self) -> AbstractContextManager[None]:
        """A transaction in which nobody else can migrate, and in which `applied` is up to date."""

    def apply(self, migration: Migration) -> None:
        """Run one migration and write it down, in the transaction that is open."""

    def catalogue(self) -> set[str]:
        """Every table, column, index, constraint and view as one line of text."""

    def fresh_catalogue(self) -> set[str]:
        """What the catalogue is after all migrations have run on an empty database."""


class SqliteTarget:
    """One SQLite file."""

    def __init__(self, database: SqliteDatabase, folder: str) -> None:
        self._database = database
        self.folder = folder
        self.shown = database.url

    def applied(self) -> list[tuple[int, str]]:
        if not self._database.query("select 1 from sqlite_schema where name = 'schema_version'"):
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
