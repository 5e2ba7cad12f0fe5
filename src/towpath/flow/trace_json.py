"""Traces for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.flow.trace import Trace
from towpath.log.record import Record


def trace_item(trace: Trace) -> dict[str, Any]:
    return {
        "topic": trace.topic,
        "partition": trace.partition,
        "offset": trace.offset,
        "stage": trace.stage,
        "place": trace.place,
        "now": trace.now,
        "records_before": trace.before,
        "record": None if trace.record is None else _record_item(trace.record),
        "readings": [
            {
                "generation": batch.generation,
                "batch_id": batch.batch_id,
                "state": batch.state,
                "attempts": batch.attempts,
                "started_at": batch.started_at,
                "committed_at": batch.committed_at,
            }
            for batch in trace.readings
        ],
        "failures": [
            {
                "at": seen.at,
                "time": seen.time,
                "batch_id": seen.record.batch_id,
                "generation": seen.record.generation,
                "output": seen.record.output,
                **seen.record.failure._asdict(),
            }
            for seen in trace.failures
        ],
        "found": [each._asdict() for each in trace.found],
        "gaps": [{"start": gap.start, "stop": gap.stop, "reason": gap.reason} for gap in trace.gaps],
    }


def _record_item(record: Record) -> dict[str, Any]:
    key = None if record.key is None else record.key.decode(errors="backslashreplace")
    size = None if record.value is None else len(record.value)
    return {"timestamp_ms": record.timestamp_ms, "key": key, "bytes": size}
