"""One run of the soak."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import towpath
from soak.flow.memory import Memory, memory_of
from soak.flow.producer import PARTITIONS
from towpath import Flow, topic
from towpath.core.events import Event, EventKind
from towpath.flow.sinks.sink import NullSink
from towpath.flow.sinks.template import Template
from towpath.runtime import Runtime
from towpath.testing.servers import kafka_server

TOPIC = "soak"
EVERY = 1_000_000
LOOK_EVERY_S = 0.2

Say = Callable[[str], None]


def soak(records: int, say: Say) -> dict[int, Memory]:
    """The driver's memory after so many records, from the first million on."""
    with tempfile.TemporaryDirectory(prefix="towpath-soak-") as home, kafka_server() as kafka:
        sections: dict[str, Any] = {
            "database": {"url": f"sqlite:///{home}/towpath.db"},
            "log": {"url": kafka.url},
            "flow": {"directory": f"{home}/flows"},
            "spark": {"master": "local[2]", "memory": "2g"},
        }
        with towpath.connect(**sections) as runtime:
            runtime.log.create_topic(TOPIC, PARTITIONS)
            say(f"filling the topic with {records:,} records while the flow runs")
            command = [sys.executable, "-m", "soak.flow.producer", kafka.url, TOPIC, str(records)]
            producer = subprocess.Popen(command)
            try:
                return _watched(runtime, records, say)
            finally:
                producer.kill()
                producer.wait()


def _flow() -> Flow:
    flow = Flow("soak")

    @flow.each(topic(TOPIC))
    def marked(event: dict[str, Any]) -> dict[str, Any]:
        event["seen"] = True
        return event

    flow.load(marked, NullSink(Template("nowhere"), None, None))
    return flow


def _watched(runtime: Runtime, records: int, say: Say) -> dict[int, Memory]:
    done = 0
    changed = threading.Event()

    def count(event: Event) -> None:
        nonlocal done
        if event.kind is EventKind.BATCH_COMMITTED:
            done += event.data["read"]
            changed.set()

    runtime.events.subscribe(count)
    run = runtime.flow(_flow())
    run.start()
    found: dict[int, Memory] = {}
    began = time.monotonic()
    while done < records:
        changed.wait(LOOK_EVERY_S)
        changed.clear()
        if done // EVERY > max(found, default=0) // EVERY:
            found[done] = memory_of(_session())
            say(f"{done:>12,} records · {done / (time.monotonic() - began):>8,.0f}/s · {found[done]}")
    found[done] = memory_of(_session())
    run.stop()
    run.wait()
    return found


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
