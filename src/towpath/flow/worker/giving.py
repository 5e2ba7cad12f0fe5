"""How a segment gives rows back to the JVM: typed columns and the record."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from towpath.flow.worker.chunk import Chunk
from towpath.flow.worker.records import RECORD, RECORD_TYPE
from towpath.flow.worker.report import Report


@dataclass(frozen=True, slots=True)
class GiveColumns:
    """Ends with the columns that the segment has begun with, or has read."""

    columns: pa.Schema

    def arrow(self) -> pa.Schema:
        return pa.schema([*self.columns, (RECORD, RECORD_TYPE)])

    def batch(self, chunk: Chunk, report: Report) -> pa.RecordBatch:
        report.add(chunk)
        struct = chunk.records.struct()
        if len(chunk.inputs) != len(struct) or not isinstance(chunk.inputs, range):
            struct = struct.take(pa.array(chunk.inputs, pa.int64()))
        return pa.RecordBatch.from_arrays([*chunk.columns, struct], schema=self.arrow())
