"""Tables of the user's own, as a sink of flows: made when absent, written in portions, read back for the audit.

Their names and columns are the user's, so the SQL is put together here and not in a file: every name is quoted, every
value is a parameter. Of one portion the rows that the database will not take are found by halves, inside savepoints;
the others are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from towpath.db.open import SQLITE_PREFIX
from towpath.db.postgres.database import PostgresDatabase
from towpath.db.sqlite.database import SqliteDatabase
from towpath.db.tables.model import Cells, RefusedRow, TableShape
from towpath.db.tables.postgres import PostgresTables
from towpath.db.tables.sqlite import SqliteTables
from towpath.errors import DatabaseUnavailable

LOCK_TIMEOUT_S = 60.0


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


def open_tables(url: str, schema: str) -> SqliteTables | PostgresTables:
    """The tables behind a URL. Nothing is asked of the server yet."""
    if not url.startswith(SQLITE_PREFIX):
        return PostgresTables(PostgresDatabase(url, schema, LOCK_TIMEOUT_S))
    path = Path(url.removeprefix(SQLITE_PREFIX)).expanduser().absolute()
    if not path.parent.is_dir():
        raise DatabaseUnavailable(f"{url}: the directory {path.parent} does not exist; make it first")
    return SqliteTables(SqliteDatabase(path, "full", LOCK_TIMEOUT_S))
