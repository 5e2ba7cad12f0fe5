"""From a URL to an open database whose tables fit this code."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from towpath.db import migrations
from towpath.db.database import Database
from towpath.db.migration_targets import targets
from towpath.db.postgres import PostgresDatabase
from towpath.db.sqlite import SqliteDatabase
from towpath.errors import DatabaseUnavailable, NotInstalled
from towpath.settings import DatabaseSettings

OLDEST_SQLITE = (3, 38, 0)  # returning, strict tables and built-in JSON functions
SQLITE_PREFIX = "sqlite:///"


def connect_database(settings: DatabaseSettings) -> Database:
    """The database as it is, without a look at its tables."""
    if not settings.url.startswith(SQLITE_PREFIX):
        return PostgresDatabase(settings.url, settings.db_schema, settings.lock_timeout_s)
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise NotInstalled(f"SQLite {needed} (found {sqlite3.sqlite_version})", "use a newer Python")
    path = Path(settings.url.removeprefix(SQLITE_PREFIX)).expanduser().absolute()
    if not path.parent.is_dir():
        raise DatabaseUnavailable(f"{settings.url}: the directory {path.parent} does not exist; make it first")
    return SqliteDatabase(path, settings.synchronous, settings.lock_timeout_s)


def open_database(settings: DatabaseSettings) -> Database:
    """The database with its tables upgraded, or checked when the settings say that upgrading is a person's job."""
    database = connect_database(settings)
    try:
        for target in targets(database):
            if settings.auto_upgrade:
                migrations.upgrade(target)
            else:
                migrations.check(target)
    except BaseException:
        database.close()
        raise
    return database
