"""Spark reading both logs: the same session, columns, sink and records."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from bench.log.workload import TOPIC
from towpath.log import Log, NewRecord
from towpath.log.spark.source import read_batch, read_stream

SINK = "noop"
SEEN_WITHIN_S = 60.0
PAUSE_S = 0.25  # so that the query is idle again, and not in the middle of its last batch


class InSpark:
    """One session for all."""

    def __init__(self, session: SparkSession, records: int, single_records: int) -> None:
        self._session = session
        self._records = records
        self._single_records = single_records

    def warm_up(self, log: Log) -> None:
        self.batch(log)
        self.stream(log)

    def batch(self, log: Log) -> float:
        started = time.perf_counter()
        read_batch(self._session, log, [TOPIC]).write.format(SINK).mode("overwrite").save()
        return self._records / (time.perf_counter() - started)

    def stream(self, log: Log) -> float:
        """All that is there, with `availableNow`: from the start of the query to its end."""
        return self._records / self._streamed(log)[0]

    def running_stream(self, log: Log) -> float:
        """The same without what a query does once, when it starts: only the time of its triggers counts."""
        return self._records / self._streamed(log)[1]

    def _streamed(self, log: Log) -> tuple[float, float]:
        """Seconds of a whole query, and of its triggers."""
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as checkpoint:
            started = time.perf_counter()
            frame = read_stream(self._session, log, [TOPIC])
            writer = frame.writeStream.format(SINK).option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            spent_s = time.perf_counter() - started
        count = sum(progress.numInputRows for progress in query.recentProgress)
        assert count == self._records, f"Spark read {count} records in place of {self._records}"
        return spent_s, sum(progress.durationMs["triggerExecution"] for progress in query.recentProgress) / 1000

    def seen_after_s(self, log: Log) -> list[float]:
        """From before a record is appended to its being in a driver's hands, one record at a time."""
        topic = log.create_topic(f"seen-{uuid4().hex[:8]}", 1).name
        watch = _Watch()
        with tempfile.TemporaryDirectory(prefix="towpath-bench-") as checkpoint:
            writer = read_stream(self._session, log, [topic]).writeStream.foreachBatch(watch.take)
            query = writer.option("checkpointLocation", checkpoint).start()
            try:
                _timed(log, topic, watch, b"first")  # the query is running when this one is there
                return [_timed(log, topic, watch, b"%d" % number) for number in range(self._single_records)]
            finally:
                query.stop()
                log.delete_topic(topic)


class _Watch:
    """Values that the query has given out, and when."""

    def __init__(self) -> None:
        self._seen_at: dict[bytes, float] = {}
        self._changed = threading.Condition()

    def take(self, frame: DataFrame, _: int) -> None:
        values = [bytes(row.value) for row in frame.select("value").collect()]
        with self._changed:
            self._seen_at |= dict.fromkeys(values, time.perf_counter())
            self._changed.notify_all()

    def wait(self, value: bytes) -> float:
        with self._changed:
            came = self._changed.wait_for(lambda: value in self._seen_at, SEEN_WITHIN_S)
            assert came, f"the query has not seen a record within {SEEN_WITHIN_S:g} s"
            return self._seen_at[value]


def _timed(log: Log, topic: str, watch: _Watch, value: bytes) -> float:
    time.sleep(PAUSE_S)
    started = time.perf_counter()
    log.append(topic, [NewRecord(value)])
    return watch.wait(value) - started


def versions(session: SparkSession) -> str:
    return f"Spark {session.version}, {session.sparkContext.master}, {_memory(session.conf.get)} for the driver"


def _memory(get: Callable[[str], Any]) -> str:
    return str(get("spark.driver.memory"))
