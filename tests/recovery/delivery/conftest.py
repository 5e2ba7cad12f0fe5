"""A rig for each case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from tests.recovery.delivery.points import Case
from tests.recovery.delivery.rig import Rig, other_than
from tests.recovery.delivery.targets import (
    FilesTarget,
    IndexTarget,
    PostgresTarget,
    SqliteTarget,
    Target,
    TopicTarget,
)
from tests.support.flows import World
from tests.support.logs import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def make_rig(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[Case], Rig]]:
    made: list[World] = []

    def make(case: Case) -> Rig:
        home = tmp_path / uuid4().hex[:8]
        home.mkdir()
        world = World(spark, _place(case, request, home), home)
        made.append(world)
        target = _target(case.target, request, home)
        return Rig(world, case, target, other_than(target, home, SqliteTarget, FilesTarget))

    yield make
    for world in made:
        world.close()


def _place(case: Case, request: pytest.FixtureRequest, home: Path) -> Place:
    database = {"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"}
    if case.target != "kafka":
        return Place("sqlite", {"url": "embedded"}, database)
    kafka = request.getfixturevalue("kafka")
    return Place("kafka", {"url": kafka.url, "namespace": f"t{uuid4().hex[:12]}", "timeout_s": 20.0}, database)


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
            for output in ("main", "left", "right"):
                target.prepare(output)
            return target
    raise ValueError(kind)
