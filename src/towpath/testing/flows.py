"""Try a flow on a few records: the same plan as in production, on a local Spark, with nothing written anywhere.

tried = try_flow(flow, [{"name": "page.viewed", "at": 1}, b"no JSON"])
assert [one.document["section"] for one in tried.loaded["views"]] == ["news"]
assert [one.failure.code for one in tried.failed] == [ErrorCode.NOT_JSON]

Each sink is replaced by a `Capture`, which writes down what it is handed.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from towpath.errors import BadValue
from towpath.flow.flow import Flow
from towpath.flow.graph.stages import Stage
from towpath.flow.run.outcome import gather
from towpath.flow.sinks.sink import Deliveries, Refusal, Sink, WriterContext
from towpath.flow.sinks.template import Template
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.report import FailedRecord
from towpath.log.record import NewRecord
from towpath.log.spark.columns import SCHEMA
from towpath.settings import Settings, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NONCE = "0123456789abcdef"  # records that are tried come from the test itself
GivenRecords = NewRecord | Mapping[str, Any] | bytes | str | None


def try_flow(
    flow: Flow,
    records: Sequence[GivenRecords] | Mapping[str, Sequence[GivenRecords]],
    *,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
) -> FlowTrial:
    """Run a flow on records: a list for a flow of one topic, else lists by topic.

    A record is a dict (made into JSON), bytes or text (taken as they are), None (a tombstone) or a `NewRecord`.
    """
    settings = settings or Settings()
    session = spark or _session()
    tried = FlowTrial(loaded={output.name: [] for output in flow.outputs})
    for stage in flow.stages():
        _try_stage(flow, stage, _by_topic(stage, records), session, settings, tried)
    return tried


@dataclass(slots=True)
class FlowTrial:
    """What became of the records: by output, by failure, by the step that filtered them."""

    loaded: dict[str, list[Loaded]] = field(default_factory=dict)
    failed: list[FailedRecord] = field(default_factory=list)
    filtered: Counter[str] = field(default_factory=Counter)
    read: int = 0


class Loaded(NamedTuple):
    """One delivery as the sink would have got it."""

    target: str
    id: str
    document: dict[str, Any]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Capture:
    """Stands in for another sink: names and ids are made as for that one."""

    target: Template
    id: Template | None
    routing: Template | None
    directory: str
    is_idempotent: bool = True
    may_refuse: bool = False

    @classmethod
    def of(cls, sink: Sink, directory: Path) -> Capture:
        return cls(sink.target, sink.id, sink.routing, str(directory))

    def check(self, settings: Settings) -> None:
        pass

    def writer(self, place: WriterContext) -> CaptureWriter:
        return CaptureWriter(Path(self.directory, f"{_file_name(place.output)}-{_file_name(place.unit)}.jsonl"))

    def __str__(self) -> str:
        return f"a capture, instead of {self.target}"


@dataclass(slots=True)
class CaptureWriter:
    """Keeps deliveries, and writes them when the task is done."""

    path: Path
    lines: list[str] = field(default_factory=list)

    def write(self, deliveries: Deliveries) -> Iterable[Refusal]:
        columns = zip(deliveries.targets, deliveries.ids, deliveries.payloads, strict=True)
        self.lines += [json.dumps([target, id, payload.decode()]) for target, id, payload in columns]
        return ()

    def finish(self) -> Iterable[Refusal]:
        self.path.write_text("\n".join(self.lines), encoding="utf-8")
        return ()

    def close(self) -> None:
        pass


def captured(directory: Path, output: str) -> list[Loaded]:
    """The deliveries of an output, task by task."""
    found = []
    for path in sorted(directory.glob("*.jsonl")):
        if path.stem.rpartition("-")[0] == _file_name(output):
            for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
                target, id, payload = json.loads(line)
                found.append(Loaded(target, id, orjson.loads(payload), payload.encode()))
    return found


def _file_name(output: str) -> str:
    return output.encode().hex()


def _session() -> SparkSession:
    from towpath.spark.session import build_session

    return build_session(SparkSettings(master="local[1]"), "towpath-try")


def _by_topic(
    stage: Stage, records: Sequence[GivenRecords] | Mapping[str, Sequence[GivenRecords]]
) -> Mapping[str, Sequence[GivenRecords]]:
    if isinstance(records, Mapping):
        return {topic: given for topic, given in records.items() if topic in stage.topics}
    if len(stage.topics) != 1:
        raise BadValue(f"the flow reads {', '.join(stage.topics)}; give the records by topic: {{topic: [...]}}")
    return {stage.topics[0]: records}


def _try_stage(
    flow: Flow,
    stage: Stage,
    records: Mapping[str, Sequence[GivenRecords]],
    spark: SparkSession,
    settings: Settings,
    tried: FlowTrial,
) -> None:
    from towpath.flow.plan.plan import Plan

    with tempfile.TemporaryDirectory(prefix="towpath-try-") as home:
        reports = Path(home, "reports")
        reports.mkdir()
        outputs = tuple(replace(output, sink=Capture.of(output.sink, Path(home))) for output in stage.outputs)
        place = BatchContext(flow.name, stage.name, "try", str(reports), NONCE, settings)
        limit = flow.max_record_bytes or settings.flow.max_record_bytes
        plan = Plan(replace(stage, outputs=outputs), place, {}, limit)
        plan.run(spark.createDataFrame(list(_rows(records)), SCHEMA).coalesce(1))
        outcome = gather([reports], plan.chain)
        tried.failed += sorted(outcome.failures, key=lambda one: (one.topic, one.offset))
        tried.filtered += outcome.filtered
        tried.read += outcome.read
        for output in outputs:
            tried.loaded[output.name] += captured(Path(home), output.name)


def _rows(records: Mapping[str, Sequence[GivenRecords]]) -> Iterable[tuple[Any, ...]]:
    for topic, given in records.items():
        for offset, one in enumerate(given):
            record = one if isinstance(one, NewRecord) else NewRecord(_value(one))
            at = datetime.fromtimestamp((record.timestamp_ms or 1) / 1000, UTC)
            headers = [{"key": name, "value": value} for name, value in record.headers] or None
            yield topic, record.partition or 0, offset, at, record.key, record.value, headers


def _value(given: Mapping[str, Any] | bytes | str | None) -> bytes | None:
    match given:
        case None | bytes():
            return given
        case str():
            return given.encode()
        case _:
            return json.dumps(given, ensure_ascii=False).encode()
