"""The clock: Spark tells a listener when each batch was triggered and how long it took, whoever runs the query."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from bench.delivery.spans import Span, span_of, took_s

TOLD_WITHIN_S = 60.0


class QueryClock(StreamingQueryListener):
    """For one query at a time, and for those that follow it when it is tried again."""

    def __init__(self, spark: SparkSession) -> None:
        self._spans: list[Span] = []
        self._running = 0
        self._told = threading.Condition()
        spark.streams.addListener(self)

    def reset(self) -> None:
        """Forget what was before, when all of it has been told."""
        self._wait_for_end()
        self._spans.clear()

    def took_s(self) -> float:
        """How long the query has worked. What is told comes a little after the query has ended."""
        self._wait_for_end()
        return took_s(self._spans)

    def _wait_for_end(self) -> None:
        with self._told:
            if not self._told.wait_for(lambda: self._running == 0, TOLD_WITHIN_S):
                raise TimeoutError(f"Spark has not told of the end of a query in {TOLD_WITHIN_S:g} s")

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        with self._told:  # before the query runs: this one is told at once
            self._running += 1

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if (span := span_of(progress.timestamp, progress.durationMs)) is not None:
            self._spans.append(span)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._told:
            self._running -= 1
            self._told.notify_all()
