"""Databases of PostgreSQL that have all tables and no rows: copied from one, which is quicker than to migrate each.

A copy is dropped after its test. Schemas that stay would be hundreds of thousands of files at the end of a run, and the
server slower from test to test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from towpath.db import open_database
from towpath.settings import DatabaseSettings

TEMPLATE = "towpath_template"


class PostgresTemplate:
    """The database that others are copied from."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._do(f"create database {TEMPLATE}")
        open_database(DatabaseSettings(**self._settings(TEMPLATE))).close()

    @contextmanager
    def copied(self) -> Iterator[dict[str, Any]]:
        """The `[database]` settings of a copy, which is there for as long as they are used."""
        name = f"t{uuid4().hex[:16]}"
        self._do(f"create database {name} template {TEMPLATE}")
        try:
            yield self._settings(name)
        finally:
            self._do(f"drop database {name} with (force)")

    def _settings(self, name: str) -> dict[str, Any]:
        return {"url": urlsplit(self._url)._replace(path=f"/{name}").geturl(), "schema": "towpath"}

    def _do(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement)


def without_tables(settings: dict[str, Any]) -> dict[str, Any]:
    """The `[database]` settings of a database to which no migration was applied."""
    return {**settings, "schema": "untouched"} if "schema" in settings else settings
