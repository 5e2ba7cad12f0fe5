"""A fresh store for every measurement, cloned from one that was prepared (and filled) once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from bench.queue.contenders.contract import Operation, Order
from bench.queue.field import Entry, Store
from bench.queue.process import ContenderFailed, ContenderProcess

FILL_BATCH = 1000


class Stores:
    """Makes and drops the stores of one run; `interpreter` gives an entry's Python."""

    def __init__(self, home: Path, postgres_url: str | None, interpreter: Callable[[Entry], Path]) -> None:
        self._home = home
        self._postgres_url = postgres_url
        self._interpreter = interpreter
        self._templates: set[str] = set()
        self._made = 0

    def fresh(self, entry: Entry, waiting: int) -> str:
        """The address of a new store for `entry` with `waiting` messages in it."""
        template = f"{entry.store.lower()}_{entry.module}_{waiting}"
        if template not in self._templates:
            self._make_template(entry, template, waiting)
            self._templates.add(template)
        self._made += 1
        name = f"bench_{self._made}"
        if entry.store == Store.SQLITE:
            shutil.copytree(self._home / template, self._home / name)
        else:
            self._postgres("CREATE DATABASE {} TEMPLATE {}", name, template)
        return self._address(entry, name)

    def drop(self, entry: Entry, address: str) -> None:
        """Remove a store that `fresh` gave."""
        if entry.store == Store.SQLITE:
            shutil.rmtree(Path(address).parent)
        else:
            self._postgres("DROP DATABASE {} WITH (FORCE)", address.rsplit("/", 1)[1])

    def server_version(self) -> str:
        """PostgreSQL's version."""
        with psycopg.connect(self._url()) as connection:
            return str(connection.info.parameter_status("server_version"))

    def _make_template(self, entry: Entry, name: str, waiting: int) -> None:
        if entry.store == Store.SQLITE:
            (self._home / name).mkdir()
        else:
            self._postgres("CREATE DATABASE {}", name)
        address = self._address(entry, name)
        try:
            self._run(entry, Order(Operation.PREPARE, address, "normal", 0, 1))
            if waiting:
                operation = Operation.SEND_BATCHES if entry.send_batch else Operation.SEND
                self._run(entry, Order(operation, address, "normal", waiting, FILL_BATCH))
        except ContenderFailed:
            self.drop(entry, address)
            raise

    def _run(self, entry: Entry, order: Order) -> None:
        with ContenderProcess(self._interpreter(entry), entry.module, order) as process:
            if order.operation != Operation.PREPARE:
                process.wait_ready()
                process.go()
            process.lines()

    def _address(self, entry: Entry, name: str) -> str:
        if entry.store == Store.SQLITE:
            return str(self._home / name / "queue.db")
        return f"{self._url().rsplit('/', 1)[0]}/{name}"

    def _url(self) -> str:
        assert self._postgres_url is not None, "PostgreSQL takes no part in this run"
        return self._postgres_url

    def _postgres(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._url(), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
