"""Files that a unit writes before its outputs are loaded: what was decided, and what a sink has refused.

A *decision* (step 2 of docs/explanation/delivery.md) holds the records that have deliveries, and for each output what
it is to get: Arrow streams that go side by side, the n-th batch of each for the n-th chunk. A payload that is the
record as it came is not written twice.

A `RefusedFile` keeps what a sink has refused of a unit, before other outputs are given the rest. Without it a second
attempt might find that the sink takes what it has refused, while the other outputs were given everything else and are
done. The record would be in one of them and nowhere else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.sinks.sink import Deliveries
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.records import RECORD, RECORD_TYPE, Chunk, RecordColumns

UNITS = "*.unit"
RECORDS = pa.schema([(RECORD, RECORD_TYPE)])
DELIVERIES = pa.schema(
    [
        ("input", pa.int32()),
        ("payload", pa.binary()),  # null: as the record came
        ("target", pa.string()),
        ("id", pa.string()),
        ("delivery_id", pa.binary(32)),
        ("version", pa.int64()),
        ("key", pa.binary()),
        ("timestamp_ms", pa.int64()),
        ("routing", pa.string()),
    ]
)
DIRECTORY = "refused"
OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class DecisionFile:
    """Written in a task; counts only when the whole directory is made the decision of the batch."""

    def __init__(self, batch: BatchContext, unit: str, closing: ExitStack) -> None:
        self._named = Path(batch.directory, f"{sha256(unit.encode()).hexdigest()[:32]}.unit")
        # Of this attempt: one that was given up may go on writing.
        self._path = self._named.with_suffix(f".{uuid4().hex}")
        self._unit = unit
        self._closing = closing
        self._streams: list[pa.RecordBatchStreamWriter] = []
        self._records = self._open("records", RECORDS)

    def give(self, chunk: Chunk, deliveries: Sequence[Deliveries]) -> None:
        """Write down what each output is to get."""
        while len(self._streams) < len(deliveries):
            self._streams.append(self._open(str(len(self._streams)), DELIVERIES))
        used = sorted({input for each in deliveries for input in each.source.inputs})
        new = {input: at for at, input in enumerate(used)}
        struct = chunk.records.struct()
        if len(used) != len(struct):
            struct = struct.take(pa.array(used, pa.int64()))
        self._records.write_batch(pa.RecordBatch.from_arrays([struct], schema=RECORDS))
        values = chunk.records.values
        for stream, each in zip(self._streams, deliveries, strict=True):
            stream.write_batch(_rows(each, new, values))

    def finish(self) -> None:
        self._records.close()
        for stream in self._streams:
            stream.close()
        # Names the unit and the files of it that count, and says that the task came to its end.
        aside = Path(f"{self._path}.new")
        aside.write_text(json.dumps([self._unit, self._path.name]), encoding="utf-8")
        os.replace(aside, self._named)

    def _open(self, kind: str, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        file = self._closing.enter_context(pa.OSFile(f"{self._path}.{kind}", "wb"))
        return pa.ipc.new_stream(file, schema, options=OPTIONS)


def units_of(directory: Path) -> list[Path]:
    """The units that were decided, in an order that is always the same."""
    return sorted(directory.glob(UNITS))


def unit_name(path: Path) -> str:
    name: str = json.loads(path.read_text(encoding="utf-8"))[0]
    return name


def decided(path: Path, outputs: int) -> Iterator[tuple[Chunk, list[Deliveries]]]:
    """What was given to the file of a unit, in the same order; deliveries of which nothing is left out."""
    stem = path.with_name(json.loads(path.read_text(encoding="utf-8"))[1])
    with ExitStack() as closing:
        records = _stream(Path(f"{stem}.records"), closing)
        streams = [_stream(Path(f"{stem}.{number}"), closing) for number in range(outputs)]
        for batch in records:
            chunk = Chunk(RecordColumns.of_struct(batch.column(RECORD)), [], [], [])
            yield chunk, [_deliveries(chunk.records, stream.read_next_batch()) for stream in streams]


class RefusedFile:
    """What a sink has refused, beside the reports of all attempts at the batch. No file: nothing was refused yet."""

    def __init__(self, batch: BatchContext, output: str, unit: str) -> None:
        name = sha256(f"{output}\n{unit}".encode()).hexdigest()
        self._path = Path(batch.directory).parent / DIRECTORY / f"{name}.json"
        self.known = self._read()
        self._new = dict(self.known)

    def add(self, delivery_id: bytes, failure: RecordFailure) -> None:
        self._new[delivery_id] = failure

    def write(self) -> None:
        """Make it visible, whole, and keep it over a power cut."""
        if self._new == self.known:
            return
        self._path.parent.mkdir(exist_ok=True)
        aside = self._path.with_suffix(f".{os.getpid()}")
        with aside.open("w", encoding="utf-8") as file:
            json.dump({id.hex(): failure for id, failure in self._new.items()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._path)

    def _read(self) -> dict[bytes, RecordFailure]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {bytes.fromhex(id): RecordFailure(ErrorCode(code), *rest) for id, (code, *rest) in found.items()}


def _stream(path: Path, closing: ExitStack) -> pa.RecordBatchStreamReader:
    file = closing.enter_context(pa.OSFile(str(path)))
    return closing.enter_context(pa.ipc.open_stream(file))


def _rows(deliveries: Deliveries, new: dict[int, int], values: Sequence[bytes | None]) -> pa.RecordBatch:
    inputs = deliveries.source.inputs
    payloads = [
        None if payload is values[input] else payload
        for payload, input in zip(deliveries.payloads, inputs, strict=True)
    ]
    columns: list[Sequence[object]] = [
        [new[input] for input in inputs],
        payloads,
        deliveries.targets,
        deliveries.ids,
        deliveries.delivery_ids,
        deliveries.versions,
        deliveries.keys,
        deliveries.timestamps_ms,
        deliveries.routings or [None] * len(deliveries),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, DELIVERIES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=DELIVERIES)


def _deliveries(records: RecordColumns, batch: pa.RecordBatch) -> Deliveries:
    inputs, payloads, targets, ids, delivery_ids, versions, keys, times, routings = (
        column.to_pylist() for column in batch.columns
    )
    values = records.values
    texts = [
        values[input] or b"" if payload is None else payload for input, payload in zip(inputs, payloads, strict=True)
    ]
    has_routings = any(routing is not None for routing in routings)
    source = Chunk(records, inputs, [], [])
    return Deliveries(
        texts, targets, ids, delivery_ids, versions, keys, times, routings if has_routings else None, source
    )
