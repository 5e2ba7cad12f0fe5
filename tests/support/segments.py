"""Segments run in the test's own process: the same code as in Spark's workers, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.documents.schema import Schema
from towpath.flow.graph.nodes import InputFilter
from towpath.flow.run.outcome import BatchOutcome, gather
from towpath.flow.sinks.sink import Deliveries, Refusal, WriterContext
from towpath.flow.sinks.template import Template
from towpath.flow.worker.caller import StepCall
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.loader import Deliver, OutputLoad
from towpath.flow.worker.preparer import Columns
from towpath.flow.worker.reader import Excluded, ReadRecords
from towpath.flow.worker.segment import Segment
from towpath.log.spark.columns import ARROW_SCHEMA
from towpath.settings import Settings

TOPIC = "clicks"
TOPIC_ID = "id-of-clicks"


@dataclass
class Listing:
    """A sink that keeps what it is handed, and refuses or breaks as it is told."""

    target: Template = field(default_factory=lambda: Template("out"))
    id: Template | None = None
    routing: Template | None = None
    is_idempotent: bool = True
    may_refuse: bool = False
    refuses: Callable[[bytes], Refusal | None] | None = None
    on_write: Callable[[Deliveries], Iterable[Refusal]] = lambda deliveries: ()
    taken: list[Deliveries] = field(default_factory=list)
    finished: int = 0
    closed: int = 0

    def check(self, settings: Settings) -> None:
        pass

    def writer(self, place: WriterContext) -> Listing:
        return self

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        self.taken.append(deliveries)
        return self.on_write(deliveries)

    def finish(self) -> Iterable[Refusal]:
        self.finished += 1
        return ()

    def close(self) -> None:
        self.closed += 1

    @property
    def payloads(self) -> list[bytes]:
        return [payload for deliveries in self.taken for payload in deliveries.payloads]

    @property
    def ids(self) -> list[str]:
        return [id for deliveries in self.taken for id in deliveries.ids]

    @property
    def delivery_ids(self) -> list[bytes]:
        return [id for deliveries in self.taken for id in deliveries.delivery_ids]


@dataclass
class Bench:
    """Puts a segment together and runs it on values."""

    home: Path
    schema: str | None = None
    excluded: Excluded = field(default_factory=dict)
    batch_rows: int = 3

    def run(self, values: Sequence[Any], *loads: OutputLoad, calls: tuple[StepCall, ...] = ()) -> BatchOutcome:
        self.home.mkdir(exist_ok=True)
        place = BatchContext(
            "flow", "stage", "hash", str(self.home), "0123456789abcdef", Settings(), {TOPIC: TOPIC_ID}, {TOPIC: 0}
        )
        schema = None if self.schema is None else Schema.of(self.schema)
        begin = ReadRecords(TOPIC, 1000, "refuse", schema, self.excluded)
        segment = Segment("segment0", begin, calls, Deliver(loads), place)
        assert list(segment.run(batches(values, self.batch_rows), "0")) == []
        return gather([self.home], [("segment0", TOPIC)])


def load(sink: Any, *calls: StepCall, output: str = "out") -> OutputLoad:
    return OutputLoad(output, sink, calls, Columns())


def call(function: Callable[..., Any], step: str = "step", timeout_s: float | None = None, **more: Any) -> StepCall:
    ids = DeliveryIds("flow", "stage", "")
    takes = more.get("takes", InputFilter())
    return StepCall(step, function, timeout_s, more.get("wants_record", False), takes, {TOPIC: TOPIC_ID}, ids)


def batches(values: Sequence[Any], rows: int) -> Iterator[pa.RecordBatch]:
    """Records 0, 1, 2, … of one partition, with keys."""
    texts = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    for begin in range(0, len(texts), rows):
        part = texts[begin : begin + rows]
        offsets = range(begin, begin + len(part))
        columns = [
            pa.array([TOPIC] * len(part)),
            pa.array([0] * len(part), pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([1_700_000_000_000_000] * len(part), pa.timestamp("us", "UTC")),
            pa.array([b"k%d" % offset for offset in offsets], pa.binary()),
            pa.array(part, pa.binary()),
            pa.array([[{"key": "h", "value": b"v"}]] * len(part), ARROW_SCHEMA.field("headers").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
