"""From what was told to rows: a new case, or one more attempt of a known one. Pure."""

from __future__ import annotations

from towpath.desk.attempt import Attempt
from towpath.desk.bodies import Kept
from towpath.desk.case import Case, NewCase
from towpath.desk.case_state import CaseState
from towpath.desk.deciding import Way
from towpath.desk.mending import marked
from towpath.desk.told import Told


def case_of(told: Told, body: Kept | None, group: int, way: Way) -> NewCase:
    """The case of a first failure; `body` is given when it is not in the record."""
    code, step, exception, message, _ = told.failure
    record = told.record
    value, blob, size = (record.value, None, len(record.value or b"")) if body is None else (None, *body)
    is_ignored = way.state is CaseState.IGNORED
    return NewCase(
        told.case_id,
        told.flow,
        told.stage,
        told.kind,
        group,
        told.fingerprint.text,
        way.state,
        int(code),
        step,
        exception,
        message,
        told.output,
        told.topic,
        told.topic_id,
        told.partition,
        told.offset,
        told.stop,
        record.key,
        told.hash,
        record.topic,
        record.partition,
        record.offset,
        told.failed_at,
        size,
        value,
        blob,
        told.headers if way.mended is None or told.headers is None else marked(told.headers, way.mended),
        told.trace_id,
        told.version,
        told.process,
        key_hash=told.key_hash,
        ticket=int(way.is_sent),
        lane=way.lane,
        due_at=way.due_at,
        behind=way.behind,
        rule=way.rule,
        edit=int(way.mended is not None),
        settled_by=way.approved_by if is_ignored else None,
        settled_why=f"by rule {way.rule}" if is_ignored else None,
    )


def attempt_of(told: Told, case: Case, group: int) -> Attempt:
    """The next failure of a known case."""
    code, step, exception, message, _ = told.failure
    return Attempt(
        case.id,
        case.attempts + 1,
        group,
        told.fingerprint.text,
        int(code),
        step,
        exception,
        message,
        told.output,
        told.trace_id,
        told.hash,
        told.version,
        told.process,
        told.record.topic,
        told.record.partition,
        told.record.offset,
        told.failed_at,
    )
