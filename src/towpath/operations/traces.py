"""Traces: which record is asked for, and where it is and how it got there, as the command line and the API show it.

A record is named by its place, its key, a document made of it, or its case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, model_validator

from towpath.desk.masks import MASK, Mask, Masks
from towpath.desk.record_queries import CaseTrace, CaseTracer, trace_all
from towpath.errors import BadValue, FieldsMasked
from towpath.flow.audit.trace import Coordinates, Trace, TracedFailure, Tracer, by_document, by_key
from towpath.log.record import Record
from towpath.operations.case_models import CaseName
from towpath.operations.model import LARGEST, Item, Named, RequestBody

if TYPE_CHECKING:
    from towpath.desk.desk import Desk
    from towpath.runtime import Runtime


MOST_SCANNED = 200_000  # offsets that are looked at for a key
HOW = "say which record: topic, partition and offset; or topic and key; or id; or case"
_WAYS = ({"topic", "partition", "offset"}, {"topic", "key"}, {"id"}, {"case"})


class TraceQuery(RequestBody):
    """A record, or several of one key."""

    flow: Named | None = Field(None, description="Not needed with a case.")
    topic: Named | None = None
    partition: int | None = Field(None, ge=0, le=1_000_000)
    offset: int | None = Field(None, ge=0, le=LARGEST)
    key: str | None = Field(None, max_length=10_000, description="Records of that key in a topic, the newest.")
    id: Named | None = Field(None, description="Of a document, where that is made from the place of the record.")
    case: CaseName | None = Field(None, description="Its number, or its id, which is the correlation id.")

    @model_validator(mode="after")
    def _says_one(self) -> TraceQuery:
        if self.model_fields_set - {"flow"} not in _WAYS:
            raise ValueError(HOW)
        if self.flow is None and self.case is None:
            raise ValueError("say of which flow")
        return self


class Traced(BaseModel):
    """Where records are, and how they got there."""

    flow: str
    items: list[Item]
    matches: int | None = Field(None, description="Of a key: how many records have it; the newest are shown.")
    offsets_read: int | None = Field(
        None, description="Of a key: only so many offsets of each partition were looked at; null: all."
    )


def traced(runtime: Runtime, wanted: TraceQuery, masks: Masks) -> Traced:
    """Raises `UnknownFlow`, `UnknownCase`, `BadValue`; and `FieldsMasked` for who may not see keys."""
    target = _target(runtime, wanted, masks)
    flow = target.tracer.flow
    found = trace_all(target.tracer, CaseTracer(runtime.database), target.records)
    items = [_shown(runtime.desk, flow, each, cases, masks) for each, cases in found]
    return Traced(flow=flow, items=items, matches=target.matches, offsets_read=target.offsets_read)


def trace_item(trace: Trace, cases: Iterable[CaseTrace]) -> Item:
    """A trace, and what the desk knows of the record."""
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
        "cases": [case.to_json() for case in cases],
    }


@dataclass(frozen=True, slots=True)
class _Target:
    """The records that are meant, and who traces them."""

    tracer: Tracer
    records: list[Coordinates]
    matches: int | None = None  # of a key: how many have it
    offsets_read: int | None = None  # of a key: of each partition, if not all


def _target(runtime: Runtime, wanted: TraceQuery, masks: Masks) -> _Target:
    if wanted.case is not None:
        found = CaseTracer(runtime.database).of_case(wanted.case).case
        if wanted.flow not in (None, found.flow):
            raise BadValue(f"case {wanted.case} is of flow {found.flow!r}, not {wanted.flow!r}")
        return _Target(_tracer(runtime, found.flow), [(found.topic, found.partition, found.offset, found.topic_id)])
    tracer = _tracer(runtime, wanted.flow or "")
    if wanted.id is not None:
        return _Target(tracer, [by_document(tracer, wanted.id)])
    if wanted.key is not None:
        return _of_key(runtime, tracer, wanted.topic or "", wanted.key, masks)
    return _Target(tracer, [(wanted.topic or "", wanted.partition or 0, wanted.offset or 0, None)])


def _of_key(runtime: Runtime, tracer: Tracer, topic: str, key: str, masks: Masks) -> _Target:
    if masks.of(tracer.flow).hides_key:
        raise FieldsMasked("keys are masked for you: nobody is told which records have this one")
    tracer.current_id(topic)  # raises when the flow does not read it
    found = by_key(runtime.log, topic, key.encode(), MOST_SCANNED)
    places: list[Coordinates] = [(each.topic, each.partition, each.offset, None) for each in found.records]
    return _Target(tracer, places, found.total, found.offsets)


def _tracer(runtime: Runtime, flow: str) -> Tracer:
    return Tracer(runtime.database, runtime.log, flow, error_topic=runtime.policies.error_topic(flow))


def _record_item(record: Record) -> Item:
    key = None if record.key is None else record.key.decode(errors="backslashreplace")
    size = None if record.value is None else len(record.value)
    return {"timestamp_ms": record.timestamp_ms, "key": key, "bytes": size}


def _shown(desk: Desk, flow: str, trace: Trace, cases: Sequence[CaseTrace], masks: Masks) -> Item:
    """A trace without what this person may not see."""
    mask = masks.of(flow)
    if not mask:
        return trace_item(trace, cases)
    shown = [_case_shown(desk, case, masks) for case in cases]
    now = shown[-1].now if cases and trace.now == cases[-1].now else trace.now
    hidden = replace(trace, now=now, failures=tuple(_failure_shown(trace, seen, mask) for seen in trace.failures))
    if trace.record is not None:
        hidden = replace(hidden, record=trace.record._replace(key=mask.key(trace.record.key)))
    return trace_item(hidden, shown)


def _case_shown(desk: Desk, case: CaseTrace, masks: Masks) -> CaseTrace:
    view = desk.cases.show(case.case.id, masks=masks)
    return replace(case, case=view.case, attempts=view.attempts, done=view.history)


def _failure_shown(trace: Trace, seen: TracedFailure, mask: Mask) -> TracedFailure:
    """When the record is deleted, nobody knows what its message quotes: all of it is hidden."""
    record, failure = trace.record, seen.record.failure

    def shown(text: str) -> str:
        if record is None or record.value is None:
            return MASK if text else text
        return mask.text(text, [record.value], record.key, record.headers)

    hidden = failure._replace(message=shown(failure.message), trace=shown(failure.trace))
    return replace(seen, record=replace(seen.record, failure=hidden))
