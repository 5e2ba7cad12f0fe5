"""A database for user tables, a prompt on it, and a consumer that takes rows away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from towpath.stack.postgres import PostgresServer


@dataclass(frozen=True)
class Home:
    """A file, or a schema on a server."""

    url: str
    schema: str

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    @property
    def options(self) -> dict[str, Any]:
        """For `table`."""
        return {"url": self.url, "schema": self.schema}

    def sql(self, statement: str) -> list[Any]:
        with self.open() as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def consume(self, table: str = "orders") -> list[bytes]:
        """Read the delivery ids of all rows, and delete them, as a consumer does that uses the table as a queue."""
        taken = self.sql(f"delete from {table} returning delivery_id") if self.has(table) else []
        return sorted(bytes(id) for (id,) in taken)

    def has(self, table: str) -> bool:
        names = "sqlite_schema where name" if self.is_sqlite else "pg_tables where tablename"
        where = "" if self.is_sqlite else f" and schemaname = '{self.schema}'"
        return bool(self.sql(f"select 1 from {names} = '{table}'{where}"))

    @contextmanager
    def open(self) -> Iterator[Any]:
        if not self.is_sqlite:
            with psycopg.connect(self.url, autocommit=True, options=f"-c search_path={self.schema}") as server:
                yield server
            return
        connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
        try:
            yield connection
        finally:
            connection.close()


def postgres_home(server: PostgresServer) -> Home:
    made = Home(server.url, f"t{uuid4().hex[:16]}")
    made.sql(f"create schema {made.schema}")
    return made


def home_of(kind: str, request: pytest.FixtureRequest, directory: Path) -> Home:
    """An empty one: `sqlite` or `postgres`."""
    if kind == "sqlite":
        return Home(f"sqlite:///{directory}/out.db", "public")
    return postgres_home(request.getfixturevalue("postgres"))
