"""One run of work in Python, as it is sent to the workers and called by Spark for each task."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from towpath import crash
from towpath.flow.codes import ErrorCode
from towpath.flow.fault import encode_fault
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.branching import GiveSources, ReadBranches, ReadSources
from towpath.flow.worker.breadcrumb import SUFFIX, Breadcrumb
from towpath.flow.worker.calling import Call, Caller, open_callers, open_watchdog
from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.delivering import WorkerFault
from towpath.flow.worker.giving import GiveColumns
from towpath.flow.worker.loading import Deliver
from towpath.flow.worker.reading import NoRecord, ReadColumns, ReadRecords
from towpath.flow.worker.report import Report


@dataclass(frozen=True, slots=True)
class Segment:
    """Begin, calls, end: columns for the JVM, or deliveries, after which nothing goes back."""

    name: str
    begin: ReadRecords | ReadColumns | ReadSources | ReadBranches
    calls: tuple[Call, ...]
    end: GiveColumns | GiveSources | Deliver
    batch: BatchPlace

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls in a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from self.run(batches, str(context.partitionId() if context is not None else 0))

    def run(self, batches: Iterator[pa.RecordBatch], task: str) -> Iterator[pa.RecordBatch]:
        crash.arm_worker(self.batch.crash)
        directory = Path(self.batch.directory)
        back = self.batch.reentry
        report = Report(directory, f"{self.name}-{task}", None if back is None else back.topic)
        breadcrumb = Breadcrumb(directory / f"{self.name}-{task}-{os.getpid()}{SUFFIX}")
        with ExitStack() as closing, self._faults():
            watchdog = open_watchdog(self._all_calls(), breadcrumb, closing)
            callers = open_callers(self.calls, breadcrumb, watchdog)
            chunks = self._called(batches, callers, report)
            if isinstance(self.end, GiveColumns | GiveSources):
                for chunk in chunks:
                    yield self.end.batch(chunk, report)
            else:
                self.end.run(chunks, task, self.batch, breadcrumb, watchdog, report, closing)
        report.finish()
        breadcrumb.close()

    def _all_calls(self) -> list[Call]:
        ends = () if isinstance(self.end, GiveColumns | GiveSources) else self.end.loads
        return [*self.calls, *(call for load in ends for call in load.all_calls)]

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """What only a person can mend is told as a fault: the driver gets nothing but texts."""
        try:
            yield
        except NoRecord as error:
            text = encode_fault(self.batch.nonce, ErrorCode.UNCATEGORISED, "", "", str(error), needs_person=True)
            raise WorkerFault(text) from error

    def _called(self, batches: Iterator[pa.RecordBatch], callers: list[Caller], report: Report) -> Iterator[Chunk]:
        for chunk in self.begin.chunks(batches, report):
            for caller in callers:
                caller.run(chunk)
            yield chunk
