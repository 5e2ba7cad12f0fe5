"""A plain `foreachBatch` with the same steps: Towpath's reading, checking, calling and writing, and nothing around it.

The same plan is put together, and the same readers, functions and writers work in its tasks. Left out is all that a
flow does to be able to say what became of each record: ledger, snapshot, marks, decision, reports, sums of delivery
ids, breadcrumbs, what is held back for sinks that cannot refuse, error topic, pilot and samples. A record that fails,
and a crash, end the query, and nobody knows what it has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from towpath import Flow
from towpath.flow.delivery.ids import Strategy
from towpath.flow.plan.plan import Plan
from towpath.flow.sinks.sink import Refusal, Writer
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.caller import Watchdog, open_callers, open_watchdog
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.loader import Deliver, OutputPreparer, prepare_all
from towpath.flow.worker.records import Chunk
from towpath.flow.worker.report import SegmentReport
from towpath.flow.worker.segment import GiveColumns, Segment
from towpath.log.spark.source import read_stream
from towpath.runtime import Runtime


class NoBreadcrumb(Breadcrumb):
    """Writes down nothing."""

    def __init__(self) -> None:
        pass

    def enter(self, step: str) -> None:
        pass

    def at(self, topic: str, partition: int, offset: int) -> None:
        pass

    def leave(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class BareSegment(Segment):
    """Begins and calls as a segment does, and hands what comes out straight to the writers."""

    def run(self, batches: Iterator[pa.RecordBatch], task: str) -> Iterator[pa.RecordBatch]:
        report, breadcrumb = SegmentReport(Path(self.batch.directory), f"{self.name}-{task}"), NoBreadcrumb()
        with ExitStack() as closing:
            watchdog = open_watchdog(self._all_calls(), closing)
            chunks = self._called(batches, open_callers(self.calls, breadcrumb, watchdog), report)
            if isinstance(self.end, GiveColumns):
                for chunk in chunks:
                    yield self.end.batch(_whole(chunk), report)
            elif isinstance(self.end, Deliver):
                self._deliver(self.end, chunks, task, watchdog, closing)
            else:
                raise TypeError(f"{type(self.end).__name__}: no route of this benchmark has several sources")

    def _deliver(
        self, end: Deliver, chunks: Iterator[Chunk], task: str, watchdog: Watchdog | None, closing: ExitStack
    ) -> None:
        first = next(chunks, None)
        if first is None:
            return
        outputs = [OutputPreparer(load, self.batch, NoBreadcrumb(), watchdog) for load in end.loads]
        unit = end.unit(first, task)
        writers: list[Writer] = []
        for load in end.loads:
            writers.append(load.sink.writer(self.batch.place(load.output, unit)))
            closing.callback(writers[-1].close)
        for chunk in chain([first], chunks):
            for writer, deliveries in zip(writers, prepare_all(outputs, chunk), strict=True):
                _none_refused(writer.write(deliveries))
            _whole(chunk)
        for writer in writers:
            _none_refused(writer.finish())


class BarePlan(Plan):
    """The plan of a stage, of bare segments."""

    def _segment(self, *parts: Any) -> Segment:
        made = super()._segment(*parts)
        return BareSegment(made.name, made.begin, made.calls, made.end, made.batch)


def run_bare(runtime: Runtime, flow: Flow, source: str) -> None:
    """All that is in the topic, in batches of the same size as a flow's, with the same trigger."""
    settings, log = runtime.settings, runtime.log
    [stage] = flow.stages()
    for output in stage.outputs:
        output.sink.check(settings)
    home = Path(settings.flow.directory).absolute() / flow.name
    home.mkdir(parents=True)
    topic_ids = {source: log.topic(source).id}

    def load(records: DataFrame, batch_id: int) -> None:
        place = BatchContext(
            flow.name,
            stage.name,
            sha256(f"{flow.name} {batch_id}".encode()).hexdigest(),
            str(home),
            "",
            settings,
            topic_ids,
            batch_id=batch_id,
            strategy=Strategy.AT_MOST_ONCE,
        )
        BarePlan(stage, place, {}, settings.flow.max_record_bytes).run(records)

    records = read_stream(runtime.spark(), log, [source], None, settings.flow.max_batch_records)
    run_query(records.writeStream.foreachBatch(load), home, settings.flow.trigger_s)


def run_query(writer: Any, home: Path, trigger_s: float) -> None:
    """A query until it has done all there is."""
    trigger = f"{round(trigger_s * 1_000)} milliseconds"
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(processingTime=trigger).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def _whole(chunk: Chunk) -> Chunk:
    if chunk.failed:
        raise ValueError(f"{len(chunk.failed)} records have failed: {next(iter(chunk.failed.values()))}")
    return chunk


def _none_refused(refusals: Iterable[Refusal]) -> None:
    for refusal in refusals:
        raise ValueError(f"refused: {refusal.exception}: {refusal.message}")
