"""A new desk for every measurement."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from bench.desk.lines import Store
from towpath import settings
from towpath.runtime import Runtime
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer


class Stores:
    """Makes the databases and logs of one run."""

    def __init__(self, postgres: PostgresServer | None, kafka: KafkaServer | None) -> None:
        self._postgres = postgres
        self._kafka = kafka
        self._numbers = count(1)

    @contextmanager
    def fresh(self, store: Store) -> Iterator[Runtime]:
        """A runtime with an empty database and a log of its own."""
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as home:
            kept = {"desk": {"directory": f"{home}/desk"}, "flow": {"directory": f"{home}/flows"}}
            with Runtime(settings.load(self._sections(store, home) | kept)) as runtime:
                try:
                    yield runtime
                finally:
                    if store is Store.POSTGRES:
                        self._empty(runtime)

    def _sections(self, store: Store, home: str) -> dict[str, dict[str, Any]]:
        if store is Store.SQLITE:
            return {"database": {"url": f"sqlite:///{home}/towpath.db"}, "log": {"url": "embedded"}}
        if self._postgres is None or self._kafka is None:
            raise AssertionError("PostgreSQL and Kafka take no part in this run")
        number = next(self._numbers)
        database = {"url": self._postgres.url, "schema": f"bench_desk_{number}"}
        return {"database": database, "log": {"url": self._kafka.url, "namespace": f"bench-desk-{number}"}}

    def _empty(self, runtime: Runtime) -> None:
        """Topics have the same names in every measurement."""
        for topic in runtime.log.topics():
            runtime.log.delete_topic(topic.name)
