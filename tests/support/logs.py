"""Both logs, for tests that hold for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from towpath.db import open_database
from towpath.log import Log, NewRecord, Record, open_log
from towpath.settings import DatabaseSettings, LogSettings
from towpath.testing.clock import wait_until


@dataclass(frozen=True)
class Place:
    """Where a log is, as settings."""

    kind: str
    log: dict[str, Any]
    database: dict[str, Any]


@pytest.fixture(params=["sqlite", "kafka"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty SQLite log, and a Kafka, in turn."""
    database = {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}
    if request.param == "sqlite":
        return Place("sqlite", {"url": "embedded"}, database)
    kafka = request.getfixturevalue("kafka")
    # A namespace of its own: producers of the same name in other tests are strangers.
    return Place("kafka", {"url": kafka.url, "namespace": f"t{uuid4().hex[:12]}", "timeout_s": 20.0}, database)


@pytest.fixture
def make_log(place: Place) -> Iterator[Callable[..., Log]]:
    """Opens as many logs on the one place as the test asks for: each is another process's, as far as it can tell."""
    made: list[Any] = []

    def make(**settings: Any) -> Log:
        database = open_database(DatabaseSettings(**place.database))
        log = open_log(LogSettings(**{**place.log, **settings}), database)
        made.extend([log, database])
        return log

    yield make
    for each in made:
        each.close()


@pytest.fixture
def log(make_log: Callable[..., Log]) -> Log:
    return make_log()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"t-{uuid4().hex[:12]}"


def new(*values: bytes | None, key: bytes | None = None) -> list[NewRecord]:
    return [NewRecord(value, key=key) for value in values]


def everything(log: Log, topic: str) -> list[Record]:
    """All records of a topic, partition after partition."""
    starts = log.starts(topic)
    return [record for number in starts for record in log.read(topic, number, starts[number])]


def shown(log: Log, topic: str) -> list[Record]:
    """The same when no transaction is under way in it: Kafka shows one a moment after its commit has returned."""
    wait_until(lambda: log.ends(topic) == log.written_ends(topic), what=f"the ends of all transactions in {topic}")
    return everything(log, topic)


def values(log: Log, topic: str) -> list[bytes | None]:
    return [record.value for record in everything(log, topic)]


def wait_for_values(log: Log, topic: str, *expected: bytes) -> None:
    """Kafka shows a committed transaction a moment after its commit."""
    wait_until(
        lambda: sorted(values(log, topic), key=repr) == sorted(expected, key=repr), what=f"{expected} in {topic}"
    )
