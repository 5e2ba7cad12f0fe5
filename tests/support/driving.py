"""A flow that runs while a test does something to what it stands on, and what others can see of it meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.support.flows import World
from tests.support.logs import Place
from tests.support.produced import Produced

from towpath.flow.failures import ErrorCode
from towpath.flow.flow import Flow
from towpath.flow.stage import StageState
from towpath.stack.kafka import KafkaServer
from towpath.testing.clock import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 120.0  # a busy machine takes its time; a test that passes waits no longer than it must


def world_on(kafka: KafkaServer, spark: SparkSession, home: Path, timeout_s: float = 20.0) -> World:
    """A world of its own on a broker that others may use too."""
    log = {"url": kafka.url, "namespace": f"t{uuid4().hex[:12]}", "timeout_s": timeout_s}
    database = {"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"}
    return World(spark, Place("kafka", log, database), home)


@dataclass
class Driven:
    """What is known of a running flow comes from the database, as any other process reads it."""

    world: World
    flow: Flow
    produced: Produced

    @property
    def machine(self) -> dict[str, Any]:
        """Of its only stage."""
        [(text,)] = rows(self.world, "select pilot from flow_stage where flow = ?", self.flow.name)
        found: dict[str, Any] = json.loads(text)
        return found

    def wait_for_trouble(self, code: ErrorCode, attempts: int = 2, state: str = "retry") -> dict[str, Any]:
        """Wait until it has tried again in vain, and return how that looks."""

        def failing() -> dict[str, Any] | None:
            machine = self.machine
            error = machine["last_error"] or {}
            is_it = error.get("code") == code and machine["attempt"] >= attempts and machine["state"] == state
            return machine if is_it else None

        try:
            machine = wait_until(failing, PATIENCE_S)
        except TimeoutError as error:
            raise AssertionError(f"code {code} was expected, and the stage is {self.machine}") from error
        assert machine is not None
        self.produced.add(code)
        return machine

    def wait_for(self, what: Callable[[], object]) -> None:
        try:
            wait_until(what, PATIENCE_S)
        except TimeoutError as error:
            raise AssertionError(f"the stage is {self.machine}") from error

    def wait_until_done(self, count: int) -> None:
        """Until so many records are settled, and it looks for more."""
        self.wait_for(lambda: self.world.counts(self.flow)["read"] >= count and self.machine["state"] == "extract")


def rows(world: World, query: str, *values: object) -> list[tuple[Any, ...]]:
    """From the database of a flow, without Towpath."""
    path = world.place.database["url"].removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return connection.execute(query, values).fetchall()


@contextmanager
def driven(world: World, flow: Flow, produced: Produced) -> Iterator[Driven]:
    """The flow at work; at the end it stops in good order."""
    run = world.open(flow)
    run.start()
    try:
        yield Driven(world, flow, produced)
    finally:
        run.stop()
        states = run.wait()
    assert set(states.values()) == {StageState.STOPPED}


def troubles(world: World) -> list[tuple[int, str]]:
    """Code and state of each failure that the events of the flow tell, oldest first."""
    told = rows(world, "select data from event where kind = 'flow_moved' order by seq")
    moves = [json.loads(text) for (text,) in told]
    return [(move["code"], move["from"]) for move in moves if "code" in move]
