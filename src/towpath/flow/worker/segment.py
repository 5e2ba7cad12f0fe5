"""One run of work in Python (`Segment`), as it is sent to the workers and called by Spark for each task.

A segment begins with the records of one source (`ReadRecords`) or several (`ReadSources`), or with columns from the
JVM, of one step (`ReadColumns`) or several branches (`ReadBranches`); rows of several know their branch. It ends by
giving columns and the record back to the JVM (`GiveColumns`, `GiveSources`), or with deliveries (`Deliver`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import pyarrow as pa

from towpath.core import crash
from towpath.flow.documents.reader import Document, read_documents
from towpath.flow.failures import ErrorCode, encode_fault
from towpath.flow.worker.breadcrumb import SUFFIX, Breadcrumb
from towpath.flow.worker.caller import StepCall, StepCaller, open_callers, open_watchdog
from towpath.flow.worker.context import BatchContext, Reentry
from towpath.flow.worker.loader import Deliver, WorkerFault
from towpath.flow.worker.reader import UNMET, NoRecord, ReadColumns, ReadRecords, first_rows, not_met, whole_inputs
from towpath.flow.worker.records import RECORD, RECORD_TYPE, Chunk, RecordColumns
from towpath.flow.worker.report import SegmentReport

BRANCH = "_branch"
OWN = "_own"  # and the number of the branch: its columns


@dataclass(frozen=True, slots=True)
class ReadSources:
    """Begins with records of several sources, each of topics of its own. They are the branches."""

    sources: tuple[ReadRecords, ...]
    topics: tuple[frozenset[str], ...]
    reentry: Reentry | None = None

    def chunks(self, batches: Iterator[pa.RecordBatch], report: SegmentReport) -> Iterator[Chunk]:
        for batch in batches:
            owners = self._owners(RecordColumns.of_batch(batch)) if batch.num_rows else []
            for number, source in enumerate(self.sources):
                rows = [row for row, owner in enumerate(owners) if owner == number]
                if not rows:
                    continue
                own = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))
                for chunk in source.chunks(iter([own]), report):
                    chunk.tags = [number] * len(chunk.inputs)
                    yield chunk

    def _owners(self, records: RecordColumns) -> list[int]:
        """The source of each record; the first one answers for what is of none."""
        shown = records if self.reentry is None else self.reentry.as_first_read(records)
        owners = {topic: number for number, topics in enumerate(self.topics) for topic in topics}
        found = [owners.get(topic, 0) for topic in shown.topics]
        names = {source.source: number for number, source in enumerate(self.sources)}
        for at, verdict in records.verdicts.items():
            if verdict.by is not None:  # a tick is of no topic of theirs
                found[at] = names.get(verdict.by, 0)
        return found


@dataclass(frozen=True, slots=True)
class ReadBranches:
    """Begins with the rows of several branches, packed into one DataFrame."""

    branches: tuple[JvmBranch, ...]

    def chunks(self, batches: Iterator[pa.RecordBatch], report: SegmentReport) -> Iterator[Chunk]:
        for batch in whole_inputs(batches):
            yield self._chunk(batch, report)

    def _chunk(self, batch: pa.RecordBatch, report: SegmentReport) -> Chunk:
        struct = batch.column(RECORD)
        if struct.null_count:
            raise NoRecord(" or ".join(branch.step for branch in self.branches))
        records = RecordColumns.of_struct(struct)
        tags: list[int | str] = batch.column(BRANCH).to_pylist()
        documents: list[Document] = [{} for _ in tags]
        for number, branch in enumerate(self.branches):
            rows = [row for row, tag in enumerate(tags) if tag == number]
            for row, document in zip(rows, self._documents(batch, number, branch, rows, records), strict=True):
                documents[row] = document
        chunk = Chunk(records, first_rows(records), documents, documents, tags=tags)
        report.counts.entered += chunk.count_inputs()
        unmet = batch.column(UNMET)
        if unmet.null_count < len(unmet):
            steps = [self.branches[int(tag)].step for tag in tags]
            chunk.fail(not_met(chunk, steps, unmet.to_pylist()))
        return chunk

    def _documents(
        self, batch: pa.RecordBatch, number: int, branch: JvmBranch, rows: list[int], records: RecordColumns
    ) -> list[Document]:
        if branch.names is None:
            # It was read once already, and strictly.
            values = [records.values[row] for row in rows]
            read, _ = read_documents(values, step=branch.step, max_bytes=1 << 62, duplicates="keep")
            return cast(list[Document], read)
        if not branch.names:
            return [{} for _ in rows]
        own = batch.column(f"{OWN}{number}").take(pa.array(rows, pa.int64()))
        documents: list[Document] = own.to_pylist(maps_as_pydicts="strict")
        return documents


@dataclass(frozen=True, slots=True)
class JvmBranch:
    """One branch in the JVM. Without names its documents are read from the text of the records."""

    step: str
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class GiveColumns:
    """Ends with the columns that the segment has begun with, or has read."""

    columns: pa.Schema

    def arrow(self) -> pa.Schema:
        return pa.schema([*self.columns, (RECORD, RECORD_TYPE)])

    def batch(self, chunk: Chunk, report: SegmentReport) -> pa.RecordBatch:
        report.add(chunk)
        struct = chunk.records.struct()
        if len(chunk.inputs) != len(struct) or not isinstance(chunk.inputs, range):
            struct = struct.take(pa.array(chunk.inputs, pa.int64()))
        return pa.RecordBatch.from_arrays([*chunk.columns, struct], schema=self.arrow())


@dataclass(frozen=True, slots=True)
class GiveSources:
    """Ends with the columns of several sources, those of each in a struct."""

    columns: tuple[pa.Schema, ...]

    def arrow(self) -> pa.Schema:
        own = [pa.field(f"{OWN}{number}", self._type(number)) for number in range(len(self.columns))]
        return pa.schema([*own, (RECORD, RECORD_TYPE)])

    def _type(self, number: int) -> pa.StructType:
        return pa.struct(list(self.columns[number]) or [("_", pa.bool_())])

    def batch(self, chunk: Chunk, report: SegmentReport) -> pa.RecordBatch:
        report.add(chunk)
        count = len(chunk.inputs)
        branch = chunk.tags[0] if chunk.tags else None
        arrays = [
            self._struct(chunk, number) if number == branch else pa.nulls(count, self._type(number))
            for number in range(len(self.columns))
        ]
        record = chunk.records.struct().take(pa.array(chunk.inputs, pa.int64()))
        return pa.RecordBatch.from_arrays([*arrays, record], schema=self.arrow())

    def _struct(self, chunk: Chunk, number: int) -> pa.StructArray:
        columns = chunk.columns if len(self.columns[number]) else [pa.array([True] * len(chunk.inputs), pa.bool_())]
        return pa.StructArray.from_arrays(columns, fields=list(self._type(number)))


SegmentBegin: TypeAlias = ReadRecords | ReadColumns | ReadSources | ReadBranches
SegmentEnd: TypeAlias = GiveColumns | GiveSources | Deliver


@dataclass(frozen=True, slots=True)
class Segment:
    """Begin, calls, end: columns for the JVM, or deliveries, after which nothing goes back."""

    name: str
    begin: SegmentBegin
    calls: tuple[StepCall, ...]
    end: SegmentEnd
    batch: BatchContext

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls in a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from self.run(batches, str(context.partitionId() if context is not None else 0))

    def run(self, batches: Iterator[pa.RecordBatch], task: str) -> Iterator[pa.RecordBatch]:
        crash.arm_worker(self.batch.crash)
        directory = Path(self.batch.directory)
        back = self.batch.reentry
        report = SegmentReport(directory, f"{self.name}-{task}", None if back is None else back.topic)
        breadcrumb = Breadcrumb(directory / f"{self.name}-{task}-{os.getpid()}{SUFFIX}")
        with ExitStack() as closing, self._faults():
            watchdog = open_watchdog(self._all_calls(), closing)
            callers = open_callers(self.calls, breadcrumb, watchdog)
            chunks = self._called(batches, callers, report)
            if isinstance(self.end, GiveColumns | GiveSources):
                for chunk in chunks:
                    yield self.end.batch(chunk, report)
            else:
                self.end.run(chunks, task, self.batch, breadcrumb, watchdog, report, closing)
        report.finish()
        breadcrumb.close()

    def _all_calls(self) -> list[StepCall]:
        ends = () if isinstance(self.end, GiveColumns | GiveSources) else self.end.loads
        return [*self.calls, *(call for load in ends for call in load.all_calls)]

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Report as a fault what only a person can mend: the driver gets nothing but texts."""
        try:
            yield
        except NoRecord as error:
            text = encode_fault(self.batch.nonce, ErrorCode.UNCATEGORISED, "", "", str(error), needs_person=True)
            raise WorkerFault(text) from error

    def _called(
        self, batches: Iterator[pa.RecordBatch], callers: list[StepCaller], report: SegmentReport
    ) -> Iterator[Chunk]:
        for chunk in self.begin.chunks(batches, report):
            for caller in callers:
                caller.run(chunk)
            yield chunk
