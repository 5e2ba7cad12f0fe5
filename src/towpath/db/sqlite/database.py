"""SQLite: one file in WAL mode, one writer at a time, a connection for each thread.

A second file beside it (`towpath.db-beats`) holds process rows: a heartbeat must not wait behind a long write, and a
commit over two attached WAL files would not be atomic, so the two never share a transaction.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.db.connections import Connections
from towpath.db.database import Dialect, Query, Row
from towpath.db.sqlite.wakeups import SqliteWakeups
from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable

# Small commits write whole pages: half of SQLite's usual page makes a one-message commit about a quarter faster.
PAGE_BYTES = 2048
CHECKPOINT_PAGES = 1000
SHIFT_IS_READ_EVERY_S = 0.05
SHORTEST_NAP_S = 0.001
LONGEST_NAP_S = 0.004

_AWAY = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
)


class SqliteDatabase:
    """One SQLite file."""

    dialect: Dialect = "sqlite"

    def __init__(
        self, path: Path, synchronous: str = "full", lock_timeout_s: float = 10.0, *, is_beats: bool = False
    ) -> None:
        self.url = f"sqlite:///{path}"
        self.path = path
        self.wakeups = SqliteWakeups(path)
        self._synchronous = synchronous
        self._lock_timeout_s = lock_timeout_s
        self.connections = Connections(self._open, is_broken=lambda connection: False)
        self._beats = (
            self
            if is_beats
            else SqliteDatabase(path.with_name(path.name + "-beats"), "normal", lock_timeout_s, is_beats=True)
        )
        self._shifts = object()  # another after each shift: what a thread has read before it does not count any more
        self._shift = (object(), 0.0, 0)  # after which shift it was read, when, and by how much

    @property
    def beats(self) -> SqliteDatabase:
        return self._beats

    def transaction(self) -> AbstractContextManager[_Statements]:
        return _Write(self)

    def single(self) -> AbstractContextManager[_Statements]:
        # A crash point between a statement and its commit exists only if the two are apart.
        return _Write(self) if crash.is_armed() else _Single(self)

    def glance(self) -> AbstractContextManager[_Statements]:
        return _Single(self)

    @contextmanager
    def read(self) -> Iterator[_Statements]:
        held = self.connections.mine()
        with held.lock:
            _check_idle(held.connection)
            self.start(held.connection, "begin")
            try:
                yield _Statements(self, held.connection, is_single=False, is_write=False)
            finally:
                _roll_back(held.connection)

    def now(self) -> int:
        # The file and all its users are on one machine, so the machine's clock is the database's.
        monotonic, shifts = time.monotonic(), self._shifts
        since, read_at, shift_us = self._shift
        if since is not shifts or monotonic - read_at > SHIFT_IS_READ_EVERY_S:
            shift_us = self._read_shift()
            self._shift = (shifts, monotonic, shift_us)
        return time.time_ns() // 1000 + shift_us

    def shift_clock(self, seconds: float) -> None:
        with self._beats.transaction() as tx:
            tx._connection.execute("update clock_shift set offset_us = offset_us + ?", (int(seconds * MICROS),))
        for database in (self, self._beats):
            database._shifts = object()

    def script(self, text: str) -> None:
        # executescript would commit what is open, so the statements go one by one.
        connection = self.connection()
        statement = ""
        for line in text.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""

    def size_bytes(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def vacuum(self) -> None:
        """Rewrite the whole file. Nobody else can write meanwhile; the time grows with the size of the file."""
        held = self.connections.mine()
        with held.lock:
            _check_idle(held.connection)
            for statement in ("vacuum", "analyze", "pragma wal_checkpoint(truncate)"):
                self.query(statement)

    def close(self) -> None:
        self.wakeups.close()
        if self._beats is not self:
            self._beats.close()
        self.connections.close()

    def start(self, connection: sqlite3.Connection, begin: str) -> None:
        """Begin a transaction."""
        try:
            self.execute(connection, begin, {})
        except sqlite3.Error as error:
            raise translated(error, self.url) from error

    def execute(
        self, connection: sqlite3.Connection, statement: str, params: dict[str, Any] | Sequence[Any]
    ) -> sqlite3.Cursor:
        """Run a statement, waiting for the lock if another has it. Raises the driver's own errors.

        SQLite's own waiting sleeps for up to 100 ms at a time, which starves a writer beside a busy one. Naps of a
        millisecond are short enough for that, and long enough for the other to make several transactions in a row:
        handing over after each one costs both their caches, and together they are half as fast.
        """
        nap_s = SHORTEST_NAP_S
        deadline = 0.0
        while True:
            try:
                return connection.execute(statement, params)
            except sqlite3.Error as error:
                monotonic = time.monotonic()
                deadline = deadline or monotonic + self._lock_timeout_s
                if _code(error) != sqlite3.SQLITE_BUSY or monotonic > deadline:
                    raise
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, LONGEST_NAP_S)

    def connection(self) -> sqlite3.Connection:
        """The connection of this thread."""
        return self.connections.mine().connection

    def query(self, statement: str, params: Sequence[Any] = ()) -> list[Row]:
        """The rows of a statement that belongs to no query file.

        Also a reader may have to wait: for one who closes the file as the last, or opens it as the first.
        """
        try:
            return self.execute(self.connection(), statement, params).fetchall()
        except sqlite3.Error as error:
            raise translated(error, self.url) from error

    def _open(self) -> sqlite3.Connection:
        try:
            # Without a wait of SQLite's own: where two processes open a new file at once, it would not wait but fail.
            connection = sqlite3.connect(
                self.path, isolation_level=None, timeout=0, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as error:
            raise translated(error, self.url) from error
        try:
            for pragma in (
                f"page_size = {PAGE_BYTES}",
                "journal_mode = wal",
                f"synchronous = {self._synchronous}",
                f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            ):
                self.execute(connection, f"pragma {pragma}", ())
        except sqlite3.Error as error:
            connection.close()
            raise translated(error, self.url) from error
        return connection

    def _read_shift(self) -> int:
        held = self._beats.connections.mine()
        with held.lock:
            try:
                row = self.execute(held.connection, "select offset_us from clock_shift", ()).fetchone()
            except sqlite3.OperationalError:
                return 0  # the tables are being made
        return int(row[0]) if row else 0


class _Write:
    """A write transaction: takes the one writer's place at its begin, so that no statement inside has to wait."""

    __slots__ = ("_database", "_held", "_statements")
    _is_single = False

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def __enter__(self) -> _Statements:
        held = self._held = self._database.connections.mine()
        held.lock.acquire()
        try:
            self._begin(held.connection)
        except BaseException:
            held.lock.release()
            raise
        self._statements = _Statements(self._database, held.connection, is_single=self._is_single)
        return self._statements

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._end(self._held.connection, is_good=kind is None)
        finally:
            self._held.lock.release()
        if kind is None:
            self._statements.committed()

    def _begin(self, connection: sqlite3.Connection) -> None:
        _check_idle(connection)
        self._database.start(connection, "begin immediate")

    def _end(self, connection: sqlite3.Connection, *, is_good: bool) -> None:
        if not is_good:
            _roll_back(connection)
            return
        _check_open(connection)
        try:
            connection.execute("commit")
        except sqlite3.Error as error:
            _roll_back(connection)
            if _code(error) == sqlite3.SQLITE_IOERR:
                raise CommitUnknown(f"{self._database.url}: {error}") from error
            raise translated(error, self._database.url) from error


class _Single(_Write):
    """One statement, which SQLite makes a transaction of its own."""

    __slots__ = ()
    _is_single = True

    def _begin(self, connection: sqlite3.Connection) -> None:
        _check_idle(connection)

    def _end(self, connection: sqlite3.Connection, *, is_good: bool) -> None:
        pass


class _Statements:
    """Runs statements inside one transaction, or one statement that is its own transaction."""

    __slots__ = ("_after", "_connection", "_database", "_is_single", "_is_write")

    def __init__(
        self, database: SqliteDatabase, connection: sqlite3.Connection, *, is_single: bool, is_write: bool = True
    ) -> None:
        self._database = database
        self._is_write = is_write
        self._connection = connection
        self._after: list[Callable[[], None]] = []
        self._is_single = is_single

    def writes_to(self, database: object) -> bool:
        return database is self._database and self._is_write

    @contextmanager
    def part(self) -> Iterator[None]:
        _check_open(self._connection)
        before = len(self._after)
        self._connection.execute("savepoint part")
        try:
            yield
        except BaseException:
            del self._after[before:]
            if self._connection.in_transaction:
                self._connection.execute("rollback to part")
                self._connection.execute("release part")
            raise
        self._connection.execute("release part")

    def rows(self, query: Query, params: dict[str, Any]) -> list[Row]:
        cursor = self._execute(query, params)
        try:
            return cursor.fetchall()  # a statement that is its own transaction commits only here
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def run(self, query: Query, params: dict[str, Any]) -> int:
        return self._execute(query, params).rowcount

    def _execute(self, query: Query, params: dict[str, Any]) -> sqlite3.Cursor:
        if query.uses_now:
            params["now"] = self._database.now()
        if not self._is_single:
            _check_open(self._connection)
        try:
            return self._database.execute(self._connection, query.text, params)
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> DatabaseError:
        if self._is_single and _code(error) == sqlite3.SQLITE_IOERR:
            return CommitUnknown(f"{self._database.url}: {error}")
        return translated(error, self._database.url)

    def insert_many(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ",".join("?" * len(columns))
        statement = f"insert into {table} ({','.join(columns)}) values ({marks})"  # noqa: S608 - names come from code
        _check_open(self._connection)
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise translated(error, self._database.url) from error

    def after_commit(self, action: Callable[[], None]) -> None:
        self._after.append(action)

    def committed(self) -> None:
        for action in self._after:
            action()


def translated(error: sqlite3.Error, url: str) -> DatabaseError:
    """The Towpath error for a driver's error."""
    if _code(error) in _AWAY:
        return DatabaseUnavailable(f"{url}: {error}; nothing was written")
    return DatabaseError(f"{url}: {error}")


def _check_idle(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        raise DatabaseError("a transaction is open in this thread already; pass it on as tx=")


def _check_open(connection: sqlite3.Connection) -> None:
    # Some errors, a full disk for one, roll the whole transaction back. What came after would commit by itself.
    if not connection.in_transaction:
        raise DatabaseError("an earlier error has ended this transaction; nothing of it was written")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("rollback")


def _code(error: sqlite3.Error) -> int:
    # Errors of the driver itself, such as the use of a closed connection, carry no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
