"""A new database for every measurement."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
from psycopg import sql

from bench.actors.lines import Store
from towpath.stack.postgres import PostgresServer


class Stores:
    """Makes and drops the databases of one run."""

    def __init__(self, server: PostgresServer | None) -> None:
        self._server = server
        self._numbers = count(1)

    @contextmanager
    def fresh(self, store: Store) -> Iterator[str]:
        """The address of a new database, which is gone at the end."""
        if store is Store.SQLITE:
            with tempfile.TemporaryDirectory(prefix="towpath-bench-") as home:
                yield f"sqlite:///{home}/actors.db"
            return
        name = f"bench_actors_{next(self._numbers)}"
        self._do("CREATE DATABASE {}", name)
        try:
            yield f"{self._url.rsplit('/', 1)[0]}/{name}"
        finally:
            self._do("DROP DATABASE {} WITH (FORCE)", name)

    @property
    def server_version(self) -> str:
        with psycopg.connect(self._url) as connection:
            return str(connection.info.parameter_status("server_version"))

    @property
    def _url(self) -> str:
        assert self._server is not None, "PostgreSQL takes no part in this run"
        return self._server.url

    def _do(self, statement: str, name: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
