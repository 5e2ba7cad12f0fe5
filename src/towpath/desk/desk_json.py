"""Cases, groups, edits and jobs for programs: one shape for the command line, exports and the API."""

from __future__ import annotations

import base64
from typing import Any

from towpath.desk.attempt import PastAttempt
from towpath.desk.case import Case
from towpath.desk.edit_store import Edit
from towpath.desk.group import Group, KnownFingerprint
from towpath.desk.history import Done
from towpath.desk.job import Item, Job
from towpath.log.record import Headers


def text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    """Bytes as text where they are that, else under `<name>_base64`."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def case_item(case: Case) -> dict[str, Any]:
    return {
        "seq": case.seq,
        "id": case.id,
        "flow": case.flow,
        "stage": case.stage,
        "kind": case.kind,
        "group": case.group_id,
        "fingerprint": case.fingerprint,
        "state": case.state,
        "code": case.code,
        "step": case.step,
        "exception": case.exception,
        "message": case.message,
        "output": case.output,
        "topic": case.topic,
        "partition": case.partition,
        "offset": case.offset,
        "stop": case.stop,
        **text_or_base64("key", case.key),
        "error_topic": case.error_topic,
        "error_partition": case.error_partition,
        "error_offset": case.error_offset,
        "attempts": case.attempts,
        "give_backs": case.give_backs,
        "lane": case.lane,
        "due_at": case.due_at,
        "behind": case.behind,
        "assignee": case.assignee,
        "rule": case.rule,
        "edit": case.edit,
        "body_bytes": case.body_bytes,
        "first_failed_at": case.first_failed_at,
        "failed_at": case.failed_at,
        "moved_at": case.moved_at,
        "settled_at": case.settled_at,
        "settled_by": case.settled_by,
        "settled_why": case.settled_why,
    }


def headers_item(headers: Headers) -> list[dict[str, Any]]:
    return [{"name": name, **text_or_base64("value", value)} for name, value in headers]


def attempt_item(attempt: PastAttempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "code": attempt.code,
        "step": attempt.step,
        "exception": attempt.exception,
        "message": attempt.message,
        "trace": attempt.trace,
        "version": attempt.version,
        "process": attempt.process,
        "error_topic": attempt.error_topic,
        "error_partition": attempt.error_partition,
        "error_offset": attempt.error_offset,
        "failed_at": attempt.failed_at,
    }


def edit_item(edit: Edit) -> dict[str, Any]:
    return {
        "edit": edit.edit,
        "state": edit.state,
        "who": edit.who,
        "why": edit.why,
        "made_at": edit.made_at,
        "decided_by": edit.decided_by,
        "decided_at": edit.decided_at,
        **text_or_base64("value", edit.value),
    }


def done_item(done: Done) -> dict[str, Any]:
    return {"what": done.what, "who": done.who, "why": done.why, "data": done.data, "at": done.at}


def group_item(group: Group) -> dict[str, Any]:
    return {
        "id": group.id,
        "flow": group.flow,
        "code": group.code,
        "step": group.step,
        "exception": group.exception,
        "title": group.title,
        "state": group.state,
        "archive": None if group.archive is None else group.archive.to_json(),
        "assignee": group.assignee,
        "merged_into": group.merged_into,
        "seen": group.seen,
        "live": group.live,
        "cases": {state: count for state, count in sorted(group.cases.items()) if count},
        "first_at": group.first_at,
        "last_at": group.last_at,
    }


def fingerprint_item(known: KnownFingerprint) -> dict[str, Any]:
    return {
        "fingerprint": known.fingerprint,
        "algorithm": known.algorithm,
        "made_of": known.made_of,
        "made_at": known.made_at,
    }


def job_item(job: Job) -> dict[str, Any]:
    return {
        "seq": job.seq,
        "id": job.id,
        "name": job.name,
        "kind": job.kind,
        "state": job.state,
        "selection": job.selection.to_json(),
        "arguments": dict(job.arguments),
        "rate_s": job.rate_s,
        "who": job.who,
        "why": job.why,
        "cases": job.cases,
        "done": job.done,
        "refused": job.refused,
        "left": job.left,
        "reason": job.reason,
        "made_at": job.made_at,
        "begun_at": job.begun_at,
        "ended_at": job.ended_at,
    }


def item_item(item: Item) -> dict[str, Any]:
    return {
        "number": item.number,
        "case": item.case_id,
        "state": item.state,
        "said": item.said,
        "done_at": item.done_at,
    }
