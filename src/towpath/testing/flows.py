"""Try a flow on a few records: the same plan as in production, on a local Spark, with nothing written anywhere.

tried = try_flow(flow, [{"name": "page.viewed", "at": 1}, b"no JSON"])
assert [one.document["section"] for one in tried.loaded["views"]] == ["news"]
assert [one.failure.code for one in tried.failed] == [ErrorCode.NOT_JSON]
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.errors import BadValue
from towpath.flow.flow import Flow
from towpath.flow.graph import Stage
from towpath.flow.outcome import gather
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.report import Failed
from towpath.log.record import NewRecord
from towpath.log.spark_columns import SCHEMA
from towpath.settings import Settings, SparkSettings
from towpath.testing.capture import Capture, Loaded, captured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NONCE = "0123456789abcdef"  # records that are tried come from the test itself
Given = NewRecord | Mapping[str, Any] | bytes | str | None


@dataclass(slots=True)
class Tried:
    """What became of the records: by output, by failure, by the step that filtered them."""

    loaded: dict[str, list[Loaded]] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    filtered: Counter[str] = field(default_factory=Counter)
    read: int = 0


def try_flow(
    flow: Flow,
    records: Sequence[Given] | Mapping[str, Sequence[Given]],
    *,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
) -> Tried:
    """Run a flow on records: a list for a flow of one topic, else lists by topic.

    A record is a dict (made into JSON), bytes or text (taken as they are), None (a tombstone) or a `NewRecord`.
    """
    settings = settings or Settings()
    session = spark or _session()
    tried = Tried(loaded={output.name: [] for output in flow.outputs})
    for stage in flow.stages():
        _try_stage(flow, stage, _by_topic(stage, records), session, settings, tried)
    return tried


def _session() -> SparkSession:
    from towpath.spark.session import build_session

    return build_session(SparkSettings(master="local[1]"), "towpath-try")


def _by_topic(stage: Stage, records: Sequence[Given] | Mapping[str, Sequence[Given]]) -> Mapping[str, Sequence[Given]]:
    if isinstance(records, Mapping):
        return {topic: given for topic, given in records.items() if topic in stage.topics}
    if len(stage.topics) != 1:
        raise BadValue(f"the flow reads {', '.join(stage.topics)}; give the records by topic: {{topic: [...]}}")
    return {stage.topics[0]: records}


def _try_stage(
    flow: Flow,
    stage: Stage,
    records: Mapping[str, Sequence[Given]],
    spark: SparkSession,
    settings: Settings,
    tried: Tried,
) -> None:
    from towpath.flow.plan import Plan

    with tempfile.TemporaryDirectory(prefix="towpath-try-") as home:
        reports = Path(home, "reports")
        reports.mkdir()
        outputs = tuple(replace(output, sink=Capture.of(output.sink, Path(home))) for output in stage.outputs)
        place = BatchPlace(flow.name, stage.name, "try", str(reports), NONCE, settings)
        limit = flow.max_record_bytes or settings.flow.max_record_bytes
        plan = Plan(replace(stage, outputs=outputs), place, {}, limit)
        plan.run(spark.createDataFrame(list(_rows(records)), SCHEMA).coalesce(1))
        outcome = gather([reports], plan.chain)
        tried.failed += sorted(outcome.failures, key=lambda one: (one.topic, one.offset))
        tried.filtered += outcome.filtered
        tried.read += outcome.read
        for output in outputs:
            tried.loaded[output.name] += captured(Path(home), output.name)


def _rows(records: Mapping[str, Sequence[Given]]) -> Iterable[tuple[Any, ...]]:
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
