"""Flows run to their end in the test's own process, on either log, with the shared Spark session."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.leases import LONG_LEASE
from tests.support.logs import Place, shown
from tests.support.spark import spark_settings

import towpath
from towpath.core.events import Event, EventKind
from towpath.errors import NotTheOnlyOne
from towpath.flow.delivery.ledger import Batch, Ledger
from towpath.flow.flow import Flow
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.stage import StageState
from towpath.flow.stage.store import StageStore
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

if TYPE_CHECKING:  # loaded with every test, also with those that have nothing to do with Spark
    from pyspark.sql import SparkSession

    from towpath.flow.run.flow_run import FlowRun

FAST = {
    "process": LONG_LEASE,
}
FLOW = {"trigger_s": 0.1, "sample_s": 0.1, "retry_least_s": 0.05, "retry_most_s": 0.5}


@dataclass
class World:
    """A log, a database and a directory, and the flows that a test runs on them."""

    spark: SparkSession
    place: Place
    home: Path
    runtimes: list[Runtime] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def settings(self, **flow: Any) -> dict[str, Any]:
        directory = {"directory": str(self.home / "flows")}
        return {
            "database": self.place.database,
            "log": self.place.log,
            **FAST,
            "spark": spark_settings(),
            "flow": {**FLOW, **directory, **flow},
        }

    def connect(self, **flow: Any) -> Runtime:
        runtime = towpath.connect(**self.settings(**flow))
        runtime.events.subscribe(self.events.append)
        self.runtimes.append(runtime)
        return runtime

    @property
    def runtime(self) -> Runtime:
        return self.runtimes[-1] if self.runtimes else self.connect()

    def send(self, topic: str, values: Sequence[Any], partitions: int = 2) -> None:
        """Append values (a dict is made JSON) with a key each."""
        log = self.runtime.log
        if topic not in {each.name for each in log.topics()}:
            log.create_topic(topic, partitions)
        records = [
            NewRecord(value if isinstance(value, bytes | None) else json.dumps(value).encode(), b"%d" % at)
            for at, value in enumerate(values)
        ]
        log.append(topic, records)

    def open(self, flow: Flow) -> FlowRun:
        """The flow, ready to start, on the session that all tests share."""
        from towpath.flow.run.flow_run import FlowContext, FlowRun  # loads pyspark

        runtime = self.runtime
        return FlowRun(
            FlowContext(
                runtime.settings,
                runtime.database,
                runtime.events,
                runtime.event_log,
                runtime.log,
                lambda: self.spark,
                runtime.process().id,
            ),
            flow,
        )

    def run(self, flow: Flow) -> dict[str, StageState]:
        """Run until there is nothing more to read."""
        run = self.open(flow)
        run.start(until_idle=True)
        return run.wait()

    def run_when_free(self, flow: Flow) -> dict[str, StageState]:
        """The same after another process was killed: its stages are free when it is found to be gone."""

        def started() -> FlowRun | None:
            run = self.open(flow)
            try:
                run.start(until_idle=True)
            except NotTheOnlyOne:
                return None
            return run

        return cast("FlowRun", wait_until(started, 120)).wait()

    def batches(self, flow: Flow) -> list[Batch]:
        """All batches of all stages, oldest first."""
        database = self.runtime.database
        with database.read() as tx:
            stages = StageStore(database).list(tx, flow.name)
            found = [each for stage in stages for each in Ledger(database).batches(tx, flow.name, stage.name, 1000)]
        return found[::-1]

    def errors(self, flow: Flow) -> list[ErrorRecord]:
        return [ErrorRecord.read(record) for record in shown(self.runtime.log, flow.error_topic)]

    def counts(self, flow: Flow) -> Counter[str]:
        """What the ledger says in all, by place."""
        total: Counter[str] = Counter()
        for batch in self.batches(flow):
            for name, value in batch.counts.items():
                total[name] += value if isinstance(value, int) else sum(value.values())
        return total

    def moves(self) -> list[tuple[str, str]]:
        return [(e.data["from"], e.data["to"]) for e in self.events if e.kind is EventKind.FLOW_MOVED]

    def close(self) -> None:
        for runtime in self.runtimes:
            runtime.close()


@pytest.fixture
def world(spark: SparkSession, place: Place, tmp_path: Path) -> Iterator[World]:
    """On the SQLite log and on Kafka in turn."""
    made = World(spark, place, tmp_path)
    yield made
    made.close()


@pytest.fixture
def embedded(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """On the SQLite log alone, for what does not depend on the log."""
    database = {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}
    made = World(spark, Place("sqlite", {"url": "embedded"}, database), tmp_path)
    yield made
    made.close()
