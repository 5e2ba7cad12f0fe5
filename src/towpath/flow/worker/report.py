"""The report of a segment to the driver: counts, and the records that failed, whole.

Two files for each task in the directory of the batch: the failures as Arrow, then the counts as JSON, whose presence
says that the task came to its end. A task that is run again replaces both.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from towpath.flow.delivery.ids import Digest
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.worker.records import RECORD, RECORD_TYPE, Chunk, RecordColumns

Coordinates = tuple[str, int, int]
FLUSH_ROWS = 1_000
MOST_CAUSES = 1_000  # that are told apart in one task

_FAILURE = [
    ("code", pa.int8()),
    ("step", pa.string()),
    ("exception", pa.string()),
    ("message", pa.string()),
    ("trace", pa.string()),
    ("output", pa.string()),
    ("delivery_id", pa.binary()),
]
SCHEMA = pa.schema([(RECORD, RECORD_TYPE), *_FAILURE])


@dataclass(slots=True)
class SegmentCounts:
    """What happened in a segment, by name of step, output or code; the parts of a batch are added up."""

    read: int = 0  # records that belong to a source of this segment
    entered: int = 0  # inputs that came in, without those that failed at once
    left: int = 0  # inputs that went on, or were handed to a sink
    refused: int = 0  # inputs of which a sink refused something
    filtered: Counter[str] = field(default_factory=Counter)  # inputs, by the step that gave nothing for them
    failed: Counter[int] = field(default_factory=Counter)  # inputs, by code
    delivered: Counter[str] = field(default_factory=Counter)  # deliveries, by output
    causes: Counter[str] = field(default_factory=Counter)  # failures, by step and fingerprint
    digests: dict[str, Digest] = field(default_factory=dict)  # of delivery ids, by output
    lowest: dict[str, int] = field(default_factory=dict)  # offset that was read, by topic/partition
    # Of what came back, by partition/offset in the re-entry topic:
    went_on: list[str] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)  # the function that gave nothing for it
    # Of what was refused, by coordinates: other outputs that did so, and all that were to get something.
    also_refused: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    partly: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # ids of what such outputs have all the same
    placed: Counter[str] = field(default_factory=Counter)  # inputs that an operator with state has put there, by place
    due: dict[str, list[int]] = field(default_factory=dict)  # in ms, by operator/shard of what the stage keeps
    event_times: dict[str, int] = field(default_factory=dict)  # the latest in ms, by input of a join
    caught: Counter[int] = field(default_factory=Counter)  # inputs, by the number of the block rule that was for them

    def saw(self, records: RecordColumns) -> None:
        """Note records that were read, in the order of their offsets within each partition.

        What leaves the state of a join without a partner was read by an earlier batch.
        """
        again = {at for at, verdict in records.verdicts.items() if verdict.is_again}
        self.read += len(records) - len(again)
        if not len(records):
            return
        is_one = not records.is_mixed and records.coordinates(0)[:2] == records.coordinates(-1)[:2]
        for at in (0,) if is_one else (at for at in range(len(records)) if at not in again):
            topic, partition, offset = records.coordinates(at)
            name = f"{topic}/{partition}"
            self.lowest[name] = min(offset, self.lowest.get(name, offset))

    def heard(self, event_times: Mapping[str, int]) -> None:
        for name, time in event_times.items():
            self.event_times[name] = max(time, self.event_times.get(name, time))

    def to_json(self) -> dict[str, Any]:
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return counts | {"digests": {output: digest.hex for output, digest in self.digests.items()}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SegmentCounts:
        named = {name: Counter(value[name]) for name in ("filtered", "delivered", "causes", "placed")}
        numbered = {
            name: Counter({int(number): count for number, count in value.get(name, {}).items()})
            for name in ("failed", "caught")
        }
        digests = {output: Digest.from_hex(text) for output, text in value["digests"].items()}
        return cls(**{**value, **named, **numbered, "digests": digests})


class FailedRecord(NamedTuple):
    """One record that failed, with the coordinates at which this stage read it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    failure: RecordFailure
    output: str | None  # that refused it; None: it failed before it came to any
    delivery_id: bytes | None
    also_refused: tuple[str, ...] = ()  # other outputs that did
    outputs: tuple[str, ...] = ()  # that were to get something of it, where there are several
    partly: Mapping[str, tuple[bytes, ...]] = {}  # what outputs that have refused something of it have all the same


class SegmentReport:
    """Collects in a worker, and is written when the task has come to its end."""

    def __init__(self, directory: Path, name: str, reentry: str | None = None) -> None:
        self.counts = SegmentCounts()
        self._reentry = reentry
        self._failures = directory / f"{name}.arrow"
        self._counts = directory / f"{name}.json"
        self._aside = directory / f".{name}.{os.getpid()}"
        self.refused: dict[Coordinates, str] = {}  # inputs of which a sink has refused something, with its output
        self._taken: dict[tuple[Coordinates, str], dict[bytes, None]] = {}  # what else of them their outputs have
        self._file: pa.NativeFile | None = None
        self._stream: pa.RecordBatchStreamWriter | None = None

    def refuse(
        self,
        records: RecordColumns,
        input: int,
        failure: RecordFailure,
        output: str,
        delivery_id: bytes,
        outputs: Sequence[str] = (),
        kin: Sequence[bytes] = (),
    ) -> None:
        """Note that a sink has refused a delivery. An input of which several are refused has failed once.

        `outputs` are those that were to get something of the input, where there are several. `kin` are all deliveries
        of the input to this output, where there are several.
        """
        coordinates = records.coordinates(input)
        if kin:
            self._taken.setdefault((coordinates, output), dict.fromkeys(kin)).pop(delivery_id, None)
        if coordinates not in self.refused:
            self.refused[coordinates] = output
            self.counts.refused += 1
            if len(outputs) > 1:
                self.counts.outputs[_text(coordinates)] = list(outputs)
            self.fail(records, {input: failure}, output, {input: delivery_id})
            return
        self._add_cause(failure)
        also = self.counts.also_refused.setdefault(_text(coordinates), [])
        if output != self.refused[coordinates] and output not in also:
            also.append(output)

    def add(self, chunk: Chunk) -> None:
        """Note what became of the inputs of a chunk that leaves its segment."""
        self.counts.left += chunk.count_inputs()
        self.counts.filtered += chunk.filtered
        if chunk.failed:
            self.fail(chunk.records, chunk.failed)
        if self._reentry is not None:
            self._add_returned(chunk, self._reentry)

    def _add_returned(self, chunk: Chunk, reentry: str) -> None:
        topics, partitions, offsets = chunk.records.topics, chunk.records.partitions, chunk.records.offsets
        for input in dict.fromkeys(chunk.inputs):
            if topics[input] == reentry:
                self.counts.went_on.append(f"{partitions[input]}/{offsets[input]}")
        for input, step in chunk.gone.items():
            if topics[input] == reentry:
                self.counts.gone[f"{partitions[input]}/{offsets[input]}"] = step

    def fail(
        self,
        records: RecordColumns,
        failures: dict[int, RecordFailure],
        output: str | None = None,
        delivery_ids: dict[int, bytes] | None = None,
    ) -> None:
        """Note that the records at these places have failed."""
        places = list(failures)
        for failure in failures.values():
            self.counts.failed[int(failure.code)] += 1
            self._add_cause(failure)
        columns = list(zip(*failures.values(), strict=True))
        ids = [(delivery_ids or {}).get(place) for place in places]
        for begin in range(0, len(places), FLUSH_ROWS):
            part = slice(begin, begin + FLUSH_ROWS)
            struct = records.struct().take(pa.array(places[part], pa.int64()))
            details = [pa.array(column[part], type) for column, (_, type) in zip(columns, _FAILURE, strict=False)]
            more = [pa.array([output] * len(struct), pa.string()), pa.array(ids[part], pa.binary())]
            self._write(pa.RecordBatch.from_arrays([struct, *details, *more], schema=SCHEMA))

    def _add_cause(self, failure: RecordFailure) -> None:
        causes, cause = self.counts.causes, f"{failure.step}\n{failure.fingerprint}"
        if cause in causes or len(causes) < MOST_CAUSES:
            causes[cause] += 1
        else:
            causes[f"{failure.step}\n{int(failure.code)}/others"] += 1

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._stream is None:
            self._file = pa.OSFile(str(self._aside), "wb")
            self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        self._stream.write_batch(batch)

    def finish(self) -> None:
        """Make the report visible."""
        for (coordinates, output), ids in self._taken.items():
            if ids:
                self.counts.partly.setdefault(_text(coordinates), {})[output] = [id.hex() for id in ids]
        if self._stream is not None and self._file is not None:
            self._stream.close()
            self._file.close()
            os.replace(self._aside, self._failures)
        else:
            self._failures.unlink(missing_ok=True)
        self._aside.write_text(json.dumps(self.counts.to_json()), encoding="utf-8")
        os.replace(self._aside, self._counts)


def read_counts(path: Path) -> SegmentCounts:
    return SegmentCounts.from_json(json.loads(path.read_text(encoding="utf-8")))


def read_failures(path: Path) -> Iterator[FailedRecord]:
    """The failures of one report; `path` is that of its counts."""
    file = path.with_suffix(".arrow")
    if not file.exists():
        return
    counts = read_counts(path)
    with pa.OSFile(str(file)) as opened, pa.ipc.open_stream(opened) as stream:
        for batch in stream:
            yield from _failed(batch, counts)


def _failed(batch: pa.RecordBatch, counts: SegmentCounts) -> Iterator[FailedRecord]:
    records = RecordColumns.of_struct(batch.column(RECORD))
    details = [batch.column(name).to_pylist() for name, _ in _FAILURE]
    for at, (code, step, exception, message, trace, output, delivery_id) in enumerate(zip(*details, strict=True)):
        yield FailedRecord(
            records.topics[at],
            records.partitions[at],
            records.offsets[at],
            records.timestamps_ms[at],
            records.keys[at],
            records.values[at],
            records.headers(at),
            RecordFailure(ErrorCode(code), step, exception, message, trace),
            output,
            delivery_id,
            tuple(counts.also_refused.get(_text(records.coordinates(at)), ())),
            tuple(counts.outputs.get(_text(records.coordinates(at)), ())),
            _ids(counts.partly.get(_text(records.coordinates(at)), {})),
        )


def _ids(partly: Mapping[str, Sequence[str]]) -> dict[str, tuple[bytes, ...]]:
    return {output: tuple(map(bytes.fromhex, ids)) for output, ids in partly.items()}


def _text(coordinates: Coordinates) -> str:
    return "/".join(map(str, coordinates))
