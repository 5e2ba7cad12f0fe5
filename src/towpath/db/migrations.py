"""Forward migrations: numbered `.sql` files, each applied once, whole or not at all, by whoever comes first.

The table `schema_version` says which have been applied. A database that knows more than this code is left alone.
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import resources
from typing import Protocol

import psycopg

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import SchemaDiffers, SchemaError, SchemaTooNew, SchemaTooOld

PACKAGE = "towpath.db"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step forward."""

    number: int
    name: str
    text: str


class Target(Protocol):
    """What a set of migrations is applied to: one SQLite file, or one schema of a PostgreSQL database."""

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


def known(folder: str) -> list[Migration]:
    """The migrations that this version of Towpath brings for one kind of database."""
    files = sorted((resources.files(PACKAGE) / "schema" / folder).iterdir(), key=lambda file: file.name)
    return [
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".sql")
    ]


def pending(target: Target) -> list[Migration]:
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


def upgrade(target: Target) -> list[Migration]:
    """Apply what is missing and return it. Safe when several processes do it at once: one works, the others wait."""
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


def check(target: Target) -> None:
    """Raise `SchemaTooOld` or `SchemaTooNew` unless the database has exactly the migrations of this code."""
    missing = pending(target)
    if missing:
        raise SchemaTooOld(f"{target.shown} lacks {', '.join(m.name for m in missing)}: run `towpath schema upgrade`")


def verify(target: Target) -> None:
    """Raise `SchemaDiffers` unless the tables are what the migrations make."""
    check(target)
    found, expected = target.catalogue(), target.fresh_catalogue()
    lines = [f"missing: {line}" for line in sorted(expected - found)]
    lines += [f"not ours: {line}" for line in sorted(found - expected)]
    if lines:
        raise SchemaDiffers(target.shown, lines)
