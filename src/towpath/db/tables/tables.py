"""Opens the user's tables behind a URL: made when absent, written in portions, read back for the audit.

Their SQL is put together in code and not in a file, because names and columns are the user's. Of one portion the rows
that the database will not take are found by halves, inside savepoints; the others are written.
"""

from __future__ import annotations

from towpath.db.open import SQLITE_PREFIX, path_of
from towpath.db.postgres.database import PostgresDatabase
from towpath.db.sqlite.database import SqliteDatabase
from towpath.db.tables.postgres import PostgresTables
from towpath.db.tables.sqlite import SqliteTables

LOCK_TIMEOUT_S = 60.0


def open_tables(url: str, schema: str) -> SqliteTables | PostgresTables:
    """The tables behind a URL. Nothing is asked of the server yet."""
    if not url.startswith(SQLITE_PREFIX):
        return PostgresTables(PostgresDatabase(url, schema, LOCK_TIMEOUT_S))
    return SqliteTables(SqliteDatabase(path_of(url), "full", LOCK_TIMEOUT_S))
