"""PostgreSQL through psycopg, a connection for each thread, opened anew after it broke."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.logs import without_password
from towpath.db.connections import Connections
from towpath.db.database import Dialect, Queries, Query, Row
from towpath.db.postgres.wakeups import PostgresWakeups
from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable

Connection = psycopg.Connection[Row]

HANG_UP_READS = 3  # the server's last words, then the end of the stream

# Classes and codes of errors in which the server says that it, not the statement, is at fault.
_AWAY_CLASSES = ("08", "25", "40", "53", "55", "57", "58")


class PostgresDatabase:
    """One schema of a PostgreSQL database."""

    dialect: Dialect = "postgres"

    def __init__(self, url: str, schema: str = "towpath", lock_timeout_s: float = 10.0) -> None:
        self.url = url
        self.schema = schema
        self._lock_timeout_s = lock_timeout_s
        self.connections = Connections(self.connect, _is_broken)
        self.wakeups = PostgresWakeups(self.connect, f"towpath_{schema}")

    @property
    def beats(self) -> PostgresDatabase:
        return self

    def transaction(self) -> AbstractContextManager[_Statements]:
        return _Write(self)

    def single(self) -> AbstractContextManager[_Statements]:
        # A crash point between a statement and its commit exists only if the two are apart.
        return _Write(self) if crash.is_armed() else _Single(self, writes=True)

    def glance(self) -> AbstractContextManager[_Statements]:
        return _Single(self, writes=False)

    @contextmanager
    def read(self) -> Iterator[_Statements]:
        held = self.connections.mine()
        with held.lock:
            self.begin(held.connection, "begin isolation level repeatable read, read only")
            try:
                yield _Statements(self, held.connection, unknown_when_broken=False)
            finally:
                _roll_back(held.connection)

    def now(self) -> int:
        try:
            row = self.connection().execute("select towpath_now()").fetchone()
        except psycopg.Error as error:
            raise translated(error, self.url) from error
        return int(row[0]) if row else 0

    def shift_clock(self, seconds: float) -> None:
        self.connection().execute("update clock_shift set offset_us = offset_us + %s", (int(seconds * MICROS),))

    def script(self, text: str) -> None:
        self.connection().execute(text)

    def size_bytes(self) -> int:
        return sum(bytes for _, bytes in self._tables())

    def vacuum(self) -> None:
        """Table by table; others go on meanwhile."""
        held = self.connections.mine()
        with held.lock:
            _check_idle(held.connection)
            tables = [sql.Identifier(self.schema, name) for name, _ in self._tables()]
            try:
                for table in tables:
                    held.connection.execute(sql.SQL("vacuum (analyze) {}").format(table))
            except psycopg.Error as error:
                raise translated(error, self.url) from error

    def _tables(self) -> list[tuple[str, int]]:
        """The name of each table of the schema, and how much room it takes."""
        own_tables = Queries("towpath.db", "upkeep", self.dialect)["own_tables"]
        try:
            return [(str(name), int(size)) for name, size in self.connection().execute(own_tables.text)]
        except psycopg.Error as error:
            raise translated(error, self.url) from error

    def close(self) -> None:
        self.wakeups.close()
        self.connections.close()

    def begin(self, connection: Connection, statement: str = "begin") -> None:
        _check_idle(connection)
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            raise translated(error, self.url) from error

    def connection(self) -> Connection:
        """The connection of this thread."""
        return self.connections.mine().connection

    def connect(self) -> Connection:
        """A new connection that finds Towpath's tables by their plain names."""
        try:
            connection = psycopg.connect(
                self.url,
                autocommit=True,
                connect_timeout=max(2, int(self._lock_timeout_s)),
                options=f"-c search_path={self.schema} -c lock_timeout={int(self._lock_timeout_s * 1000)}",
                application_name="towpath",
                keepalives_idle=30,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=int(self._lock_timeout_s * 1000),  # keepalives do not watch a statement on its way
            )
        except psycopg.Error as error:
            raise translated(error, self.url) from error
        for kind in ("uuid", "json"):
            connection.adapters.register_loader(kind, TextLoader)
        return connection


class _Write:
    """A write transaction."""

    __slots__ = ("_database", "_held", "_statements")

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def __enter__(self) -> _Statements:
        held = self._held = self._database.connections.mine()
        held.lock.acquire()
        try:
            self._database.begin(held.connection)
        except BaseException:
            held.lock.release()
            raise
        self._statements = _Statements(self._database, held.connection, unknown_when_broken=False)
        return self._statements

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if kind is None:
                self._commit(self._held.connection)
            else:
                _roll_back(self._held.connection)
        finally:
            self._held.lock.release()
        if kind is None:
            self._statements.committed()

    def _commit(self, connection: Connection) -> None:
        if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            # The server would answer the commit with a rollback, and no error.
            _roll_back(connection)
            raise DatabaseError("an earlier error has ended this transaction; nothing of it was written")
        try:
            connection.execute("commit")
        except psycopg.Error as error:
            if connection.closed:
                raise CommitUnknown(f"{without_password(self._database.url)}: {str(error).strip()}") from error
            _roll_back(connection)
            raise translated(error, self._database.url) from error


class _Single:
    """One statement that is its own transaction."""

    __slots__ = ("_database", "_held", "_statements", "_writes")

    def __init__(self, database: PostgresDatabase, *, writes: bool) -> None:
        self._database = database
        self._writes = writes

    def __enter__(self) -> _Statements:
        held = self._held = self._database.connections.mine()
        _check_idle(held.connection)
        held.lock.acquire()
        self._statements = _Statements(self._database, held.connection, unknown_when_broken=self._writes)
        return self._statements

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._held.lock.release()
        if kind is None:
            self._statements.committed()


class _Statements:
    """Runs statements inside one transaction, or one at a time outside of any."""

    __slots__ = ("_after", "_connection", "_database", "_unknown_when_broken")

    def __init__(self, database: PostgresDatabase, connection: Connection, *, unknown_when_broken: bool) -> None:
        self._database = database
        self._connection = connection
        self._after: list[Callable[[], None]] = []
        # A single statement commits by itself: when the connection breaks under it, nobody knows whether it did.
        self._unknown_when_broken = unknown_when_broken

    def rows(self, query: Query, params: dict[str, Any]) -> list[Row]:
        try:
            return self._connection.execute(query.text, params).fetchall()
        except psycopg.Error as error:
            raise self._translated(error) from error

    def run(self, query: Query, params: dict[str, Any]) -> int:
        try:
            return self._connection.execute(query.text, params).rowcount
        except psycopg.Error as error:
            raise self._translated(error) from error

    def insert_many(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        copy = sql.SQL("copy {} ({}) from stdin").format(
            sql.Identifier(table), sql.SQL(",").join(map(sql.Identifier, columns))
        )
        try:
            with self._connection.cursor() as cursor, cursor.copy(copy) as stream:
                for row in rows:
                    stream.write_row(row)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def writes_to(self, database: object) -> bool:
        return database is self._database  # one for reading refuses to write by itself

    @contextmanager
    def part(self) -> Iterator[None]:
        before = len(self._after)
        try:
            with self._connection.transaction():  # inside another one it is a savepoint
                yield
        except BaseException:
            del self._after[before:]
            raise

    def after_commit(self, action: Callable[[], None]) -> None:
        self._after.append(action)

    def committed(self) -> None:
        for action in self._after:
            action()

    def _translated(self, error: psycopg.Error) -> DatabaseError:
        if self._connection.closed and self._unknown_when_broken:
            return CommitUnknown(f"{without_password(self._database.url)}: {str(error).strip()}")
        return translated(error, self._database.url)


def translated(error: psycopg.Error, url: str) -> DatabaseError:
    """The Towpath error for a driver's error."""
    shown = f"{without_password(url)}: {str(error).strip()}"
    state = error.sqlstate
    if (state is None and isinstance(error, psycopg.OperationalError)) or (state and state.startswith(_AWAY_CLASSES)):
        return DatabaseUnavailable(f"{shown}; nothing was written")
    return DatabaseError(shown)


def _check_idle(connection: Connection) -> None:
    if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        raise DatabaseError("a transaction is open in this thread already; pass it on as tx=")


def _is_broken(connection: Connection) -> bool:
    """Whether it is closed, or was hung up by the server while it idled.

    Then there is something to read although nothing was asked. Seeing that here opens a new connection; seeing it when
    the next statement fails would leave its caller in doubt whether it was done.
    """
    server = connection.pgconn
    for _ in range(HANG_UP_READS):
        if connection.closed or server.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            break
        waiting = select.poll()  # unlike select, it takes any number of open files
        waiting.register(server.socket, select.POLLIN)
        if not waiting.poll(0):
            break
        with contextlib.suppress(psycopg.Error):
            server.consume_input()
    return connection.closed


def _roll_back(connection: Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("rollback")
