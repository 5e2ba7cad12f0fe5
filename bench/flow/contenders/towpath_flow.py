"""Towpath: strict validation, ledger and error topic included, at its default settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import towpath
from bench.flow.contenders.turn import Turn, my_turn, tell, wait_for_end, wait_for_start
from bench.flow.settings import MASTER, MAX_BATCH_RECORDS, MEMORY
from bench.flow.workload import INDEX, SCHEMA
from towpath import Flow, expect, index, table, topic
from towpath.flow.sinks.sink import NullSink, Sink
from towpath.flow.sinks.template import Template
from towpath.runtime import Runtime


def plain(source: str, sink: Sink) -> Flow:
    """Validates and dispatches."""
    flow = Flow(f"plain-{uuid4().hex[:8]}")
    flow.load(topic(source), sink)
    return flow


def steps(source: str, sink: Sink, *, deterministic: bool | None = None) -> Flow:
    """Schema, expectation, a DataFrame step and an each step."""
    flow = Flow(f"steps-{uuid4().hex[:8]}")

    @flow.step(topic(source), schema=SCHEMA)
    @expect("after the beginning of time", "at > 0")
    def dated(events: DataFrame) -> DataFrame:
        return events.withColumn("day", F.to_date(F.timestamp_millis("at")).cast("string"))

    @flow.each(dated, deterministic=deterministic)
    def labelled(event: dict[str, Any]) -> dict[str, Any]:
        event["section"] = event["url"].split("/")[1]
        return event

    flow.load(labelled, sink)
    return flow


def each(source: str, sink: Sink) -> Flow:
    """A trivial function."""
    flow = Flow(f"each-{uuid4().hex[:8]}")

    @flow.each(topic(source))
    def marked(event: dict[str, Any]) -> dict[str, Any]:
        event["seen"] = True
        return event

    flow.load(marked, sink)
    return flow


FLOWS: dict[str, Callable[[str, Sink], Flow]] = {
    "plain": plain,
    "steps": steps,
    "declared": partial(steps, deterministic=True),
    "each": each,
    "table": plain,
}


def sink_of(turn: Turn) -> Sink:
    match turn.kind:
        case "each":
            return NullSink(Template("nowhere"), None, None)
        case "table":
            return table(f"t{uuid4().hex[:8]}", url=f"sqlite:///{turn.home}/out.db")
        case _:
            return index(INDEX + "{type}", url=turn.url)


def connect(turn: Turn) -> Runtime:
    home = Path(turn.home)
    return towpath.connect(
        database={"url": f"sqlite:///{home}/towpath.db"},
        log={"url": f"kafka://{turn.bootstrap}"} if turn.bootstrap else {},
        spark={"master": MASTER, "memory": MEMORY},
        flow={"directory": str(home / "flows"), "max_batch_records": MAX_BATCH_RECORDS},
    )


def run(runtime: Runtime, flow: Flow) -> None:
    started = runtime.flow(flow)
    started.start(until_idle=True)
    started.wait()


def main() -> None:
    turn = my_turn()
    make = FLOWS[turn.kind]
    with connect(turn) as runtime:
        run(runtime, make(turn.warm_up_topic, sink_of(turn)))
        wait_for_start()
        began = time.perf_counter()
        run(runtime, make(turn.topic, sink_of(turn)))
        tell([turn.events / (time.perf_counter() - began)])
        wait_for_end()


if __name__ == "__main__":
    main()
