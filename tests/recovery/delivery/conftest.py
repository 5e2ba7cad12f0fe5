"""A rig for each case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.recovery.delivery.points import Case
from tests.recovery.delivery.rig import Rig, other_than
from tests.recovery.delivery.target import Target
from tests.recovery.delivery.targets import FilesTarget, IndexTarget, PostgresTarget, SqliteTarget, TopicTarget
from tests.support.elasticsearch import Node
from tests.support.flows import World
from tests.support.logs import Place

from towpath.log.open import KAFKA_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INDICES = ("main", "left", "right")


@pytest.fixture
def make_rig(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[Case], Rig]]:
    made: list[World] = []
    cleaning: list[Callable[[], None]] = []

    def make(case: Case) -> Rig:
        home = tmp_path / uuid4().hex[:8]
        home.mkdir()
        world = World(spark, _place(case, request, home), home)
        made.append(world)
        target = _target(case.target, request, home)
        cleaning.append(partial(_clean, target, world.place))
        return Rig(world, case, target, other_than(target, home, SqliteTarget, FilesTarget))

    yield make
    for query in spark.streams.active:  # of a case that has failed
        query.stop()
    for world in made:
        world.close()
    for clean in cleaning:  # a broker or a node with all that thousands of cases have made would become slow
        clean()


def _place(case: Case, request: pytest.FixtureRequest, home: Path) -> Place:
    database = {"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"}
    if case.target != "kafka":
        return Place("sqlite", {"url": "embedded"}, database)
    kafka = request.getfixturevalue("kafka")
    return Place("kafka", {"url": kafka.url, "namespace": f"t{uuid4().hex[:12]}", "timeout_s": 20.0}, database)


def _clean(target: Target, place: Place) -> None:
    if isinstance(target, PostgresTarget):
        with psycopg.connect(target.url, autocommit=True) as connection:
            connection.execute(f"drop schema {target.schema} cascade")
    elif isinstance(target, IndexTarget):
        for output in INDICES:
            Node(target.url).ask("DELETE", f"/{target.indices}-{output}?ignore_unavailable=true")
    elif target.prefix:
        client = AdminClient({"bootstrap.servers": place.log["url"].removeprefix(KAFKA_PREFIX)})
        names = client.list_topics(timeout=30).topics
        deleted = client.delete_topics([name for name in names if target.prefix in name] or [target.prefix])
        for each in deleted.values():
            with suppress(KafkaException):
                each.result()


def _target(kind: str, request: pytest.FixtureRequest, home: Path) -> Target:
    name = f"t{uuid4().hex[:12]}"
    match kind:
        case "topic":
            return TopicTarget()
        case "kafka":
            return TopicTarget(f"{name}-")
        case "sqlite":
            return SqliteTarget(home)
        case "files":
            return FilesTarget(home)
        case "postgres":
            url = request.getfixturevalue("postgres").url
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"create schema {name}")
            return PostgresTarget(url, name)
        case "index":
            target = IndexTarget(request.getfixturevalue("elasticsearch").url, name)
            for output in INDICES:
                target.prepare(output)
            return target
    raise ValueError(kind)
