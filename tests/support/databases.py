"""Databases with all tables and no rows, made once and then reset: to migrate one for each test takes most of its time.

PostgreSQL: each process that runs tests has one database. After a test `reset.sql` empties what the test has written,
and the database gets a new name, so that a thread the test has left behind cannot write into the next test. A database
whose tables are not as before (a test has changed the schema, or run ANALYZE) is dropped, and the next test gets a
copy of the template.

SQLite: the files are copied from those of an empty database.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from towpath.db import open_database
from towpath.settings import DatabaseSettings

SCHEMA = "towpath"
RESET = Path(__file__).with_name("reset.sql").read_text(encoding="utf-8")
SQLITE_FILES = ("towpath.db", "towpath.db-beats")
LOOKS = 1000


class PostgresDatabases:
    """The databases that tests get from one server, one at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._spare: str | None = None
        self._template = f"template_{uuid4().hex[:16]}"  # others may use the same server
        self._server = psycopg.connect(url, autocommit=True)
        self._do(f"create database {self._template}")
        open_database(DatabaseSettings(**self._settings(self._template))).close()
        with psycopg.connect(self._settings(self._template)["url"], autocommit=True) as connection:
            connection.execute(RESET.encode())
            self._shape_before = _shape(connection)

    @contextmanager
    def empty(self) -> Iterator[dict[str, Any]]:
        """The `[database]` settings of a database without rows, which is there for as long as they are used."""
        name = f"t{uuid4().hex[:16]}"
        self._make(name)
        try:
            yield self._settings(name)
        finally:
            if self._reset(name):
                self._spare = name
            else:
                self._do(f"drop database if exists {name} with (force)")

    def close(self) -> None:
        for name in filter(None, (self._spare, self._template)):
            self._do(f"drop database {name} with (force)")
        self._server.close()

    def _make(self, name: str) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            try:
                self._do(f"alter database {spare} rename to {name}")
                return
            except psycopg.errors.ObjectInUse:  # something of the last test has come back
                self._do(f"drop database {spare} with (force)")
        self._do(f"create database {name} template {self._template}")

    def _reset(self, name: str) -> bool:
        """False when the database is not as before, or gone."""
        try:
            with psycopg.connect(self._settings(name)["url"], autocommit=True) as connection:
                connection.execute("select towpath_test.end_others()")
                if _shape(connection) != self._shape_before:
                    return False
                connection.execute("select towpath_test.reset()")
        except psycopg.OperationalError:  # the test has dropped it, or stopped the server
            return False
        return self._is_left(name)

    def _is_left(self, name: str) -> bool:
        """Whether all connections are gone: the server refuses to rename a database that has some."""
        used = b"select count(*) from pg_stat_activity where datname = %s"
        for _ in range(LOOKS):
            if self._server.execute(used, (name,)).fetchone() == (0,):
                return True
            time.sleep(0.001)
        return False

    def _settings(self, name: str) -> dict[str, Any]:
        return {"url": urlsplit(self._url)._replace(path=f"/{name}").geturl(), "schema": SCHEMA}

    def _do(self, statement: str) -> None:
        self._server.execute(statement.encode())


def _shape(connection: psycopg.Connection[Any]) -> Any:
    return connection.execute("select towpath_test.shape()").fetchone()


class SqliteTemplate:
    """The files of an empty database."""

    def __init__(self, home: Path) -> None:
        self._home = home
        open_database(DatabaseSettings(url=f"sqlite:///{home / SQLITE_FILES[0]}")).close()

    def copied(self, to: Path) -> dict[str, Any]:
        """The `[database]` settings of a copy in this directory."""
        for name in SQLITE_FILES:
            shutil.copyfile(self._home / name, to / name)
        return {"url": f"sqlite:///{to / SQLITE_FILES[0]}", "synchronous": "normal"}


def without_tables(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings, for a database to which no migration was applied."""
    if "schema" in settings:
        return {**settings, "schema": "untouched"}
    home = Path(settings["url"].removeprefix("sqlite:///")).parent
    for name in SQLITE_FILES:
        (home / name).unlink()
    return settings
