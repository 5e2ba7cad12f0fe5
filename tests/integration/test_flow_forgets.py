"""A query that has ended is forgotten by Python and by Java: a flow that tries for a night must not fill either."""

from __future__ import annotations

import gc
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.flows import World

from towpath import Flow, table, topic
from towpath.core import crash
from towpath.core.crash import Armed, CrashPoint
from towpath.testing.clock import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = 4


class Watched:
    """The queries that were seen at work, without keeping them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._seen: dict[str, Any] = {}

    def look(self) -> int:
        """How many there were so far."""
        for query in self._spark.streams.active:
            if query.runId not in self._seen:
                self._seen[query.runId] = self._jvm.java.lang.ref.WeakReference(query._jsq.streamingQuery())
        return len(self._seen)

    def kept(self) -> int:
        """How many are still there, after both have looked for what nobody needs any more."""
        gc.collect()
        self._jvm.java.lang.System.gc()
        return sum(not each.refersTo(None) for each in self._seen.values())


@pytest.mark.part("flows")
@pytest.mark.parametrize("point", [None, CrashPoint.BATCH_LOADED], ids=["done", "failed"])
def test_queries_are_forgotten(point: CrashPoint | None, embedded: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "towpath")  # pytest keeps what is logged, with its trace
    flow = Flow("forgets")
    flow.load(topic("forgets-in"), table("lines", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    watched = Watched(embedded.spark)
    for number in range(RUNS):
        _run(embedded, flow, watched, number, point)
    assert watched.look() == RUNS
    wait_until(lambda: watched.kept() <= 1, 30, "the older queries to be forgotten")  # Spark may keep the last one


def _run(world: World, flow: Flow, watched: Watched, number: int, point: CrashPoint | None) -> None:
    runtime = world.connect()
    world.send("forgets-in", [{"n": number}])
    crash.arm(None if point is None else Armed(point, once=world.home / f"{number}", victim=0))
    run = world.open(flow)
    run.start(until_idle=True)
    try:
        wait_until(lambda: watched.look() > number or not run.is_running, 60, "its query")
        with suppress(crash.Crashed):
            run.wait()
    finally:
        crash.arm(None)
    world.runtimes.remove(runtime)
    runtime.close()
