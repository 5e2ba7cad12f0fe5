"""What the rest of Towpath asks of a database. Two classes fit: `SqliteDatabase` and `PostgresDatabase`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from towpath.db.bells import Bells
from towpath.db.queries import Dialect, Query

Row = tuple[Any, ...]


class Transaction(Protocol):
    """Work that commits as one. Stores are given it and never open their own."""

    def rows(self, query: Query, params: dict[str, Any]) -> list[Row]:
        """Run a statement and return all its rows."""

    def run(self, query: Query, params: dict[str, Any]) -> int:
        """Run a statement and return how many rows it touched."""

    def insert_many(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows the fastest way that the database has."""

    def part(self) -> AbstractContextManager[None]:
        """Work that is undone alone when it raises; the rest of the transaction can go on."""

    def writes_to(self, database: Database) -> bool:
        """Whether this is a write transaction of that very database."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do this when, and only when, the transaction has committed."""


class Database(Protocol):
    """One database, used by any number of threads; each has its own connection."""

    dialect: Dialect
    url: str

    @property
    def bells(self) -> Bells:
        """Wake-ups between the processes that use this database."""

    @property
    def beats(self) -> Database:
        """Where process rows live: a file that never waits for a long write (SQLite), or this same database."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A write transaction: commits at the end of the block, rolls back when it raises."""

    def single(self) -> AbstractContextManager[Transaction]:
        """For exactly one statement, which is its own transaction: saves the round trips of begin and commit."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A consistent view for reading only."""

    def glance(self) -> AbstractContextManager[Transaction]:
        """For exactly one reading statement: saves the round trips of begin and end."""

    def now(self) -> int:
        """The database's time in microseconds since 1970; the only time that leases, due times and ttl go by."""

    def shift_clock(self, seconds: float) -> None:
        """For tests: move the database's time, for every process that uses it."""

    def script(self, text: str) -> None:
        """Run several statements of a migration inside the transaction that is open."""

    def size_bytes(self) -> int:
        """How much room its tables take."""

    def vacuum(self) -> None:
        """Give back the room that deleted rows have left, and count anew what is there. On SQLite all others wait."""

    def close(self) -> None:
        """Close the connections of all threads."""
