"""Cases, groups, edits, bulk jobs and learned corrections as the command line, exports and the API show them.

`CaseExport` writes cases as JSON lines or CSV, with the record that went into the flow, less what the person may not
see. It reads in portions, each a short look of its own, so that an export of a million cases holds up nobody.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from towpath.desk.corrections.model import Doubt
from towpath.desk.masks import MASK, NO_MASKS
from towpath.log.record import Headers
from towpath.operations.model import Item

if TYPE_CHECKING:
    from towpath.desk.actions.job_store import BulkJob, JobItem
    from towpath.desk.actions.jobs import JobView
    from towpath.desk.case_queries import CaseQueries, CaseView
    from towpath.desk.cases.model import Case, CaseSelection, PastAttempt
    from towpath.desk.cases.store import HistoryRow
    from towpath.desk.corrections.model import CorrectionRule
    from towpath.desk.corrections.proposer import Correction, Suggestion
    from towpath.desk.corrections.service import Evidence
    from towpath.desk.corrections.store import Touched
    from towpath.desk.edits import Edit
    from towpath.desk.groups.model import Group, KnownFingerprint
    from towpath.desk.groups.service import GroupView
    from towpath.desk.masks import Masks


PORTION = 200
COLUMNS = (
    *("seq", "id", "flow", "stage", "kind", "state", "group", "code", "step", "exception", "message", "output"),
    *("topic", "partition", "offset", "stop", "key", "key_base64", "attempts", "assignee", "first_failed_at"),
    *("failed_at", "settled_at", "settled_by", "settled_why", "value", "value_base64"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a table calculator would run what begins so


class ExportFormat(StrEnum):
    """What an export looks like."""

    JSON = "json"  # one object a line
    CSV = "csv"


class CaseExport:
    """All cases of a selection, newest first, as text."""

    def __init__(self, cases: CaseQueries) -> None:
        self._cases = cases

    def lines(self, selection: CaseSelection, form: ExportFormat, *, masks: Masks = NO_MASKS) -> Iterator[str]:
        """Whole lines, each with its end. CSV begins with the names of the columns."""
        write: Callable[[Item], str] = _json_line if form is ExportFormat.JSON else _csv_line
        if form is ExportFormat.CSV:
            yield _csv_row(COLUMNS)
        for case, value, headers in self._read(selection, masks):
            yield write({**case_item(case), **text_or_base64("value", value), "headers": headers})

    def _read(self, selection: CaseSelection, masks: Masks) -> Iterator[tuple[Case, bytes | None, list[Item]]]:
        before: int | None = None
        while True:
            page = self._cases.page(selection, limit=PORTION, before=before, masks=masks)
            contents = self._cases.contents(page.cases, masks=masks)
            for case in page.cases:
                value, headers = contents.get(case.id, (None, ()))
                yield case, value, headers_item(headers)
            if page.next is None:
                return
            before = page.next


def case_view(view: CaseView) -> Item:
    return {
        **case_item(view.case),
        **text_or_base64("value", view.value),
        "headers": headers_item(view.headers),
        "is_masked": view.is_masked,
        "seen": asdict(view.seen),
        "of_group": group_item(view.group),
        "attempts_made": [attempt_item(each) for each in view.attempts],
        "edits": [
            {**edit_item(each.edit), "changes": [change._asdict() for change in each.changes]} for each in view.edits
        ],
        "history": [done_item(each) for each in view.history],
    }


def group_shown(group: Group, masks: Masks) -> Item:
    """A title is the message of an error, and nobody can tell what of it is hidden in one of its many records."""
    return {**group_item(group), **({"title": MASK} if masks.of(group.flow) else {})}


def group_view(view: GroupView, masks: Masks) -> Item:
    fingerprints = [fingerprint_item(each) for each in view.fingerprints]
    if masks.of(view.group.flow):
        fingerprints = [{**each, "made_of": {**each["made_of"], "message": MASK}} for each in fingerprints]
    return {
        **group_shown(view.group, masks),
        "fingerprints": fingerprints,
        "history": [done_item(each) for each in view.history],
    }


def job_view(view: JobView) -> Item:
    return {
        **job_item(view.job),
        "cases_now": {state.value: count for state, count in view.now.items()},
        "first_refused": [item_item(each) for each in view.refused],
    }


def rule_view(rule: CorrectionRule, evidence: Sequence[Evidence], touched: Sequence[Touched]) -> Item:
    """A rule with what speaks for it, and what it has changed last."""
    return {
        **rule_item(rule),
        "evidence": [
            {"given": each.given, "value": each.value, "records": each.taken, "edits": each.edited} for each in evidence
        ],
        "touched": [touched_item(each) for each in touched],
    }


def suggestions_item(case: Case, found: Sequence[Suggestion], correction: Correction | Doubt) -> Item:
    """What may be wrong with the record of a case, and why nothing would be done about it without asking."""
    doubt = correction if isinstance(correction, Doubt) else None
    return {"case": case.id, "fields": [each.to_json() for each in found], "doubt": doubt}


def case_item(case: Case) -> Item:
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


def headers_item(headers: Headers) -> list[Item]:
    return [{"name": name, **text_or_base64("value", value)} for name, value in headers]


def attempt_item(attempt: PastAttempt) -> Item:
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


def edit_item(edit: Edit) -> Item:
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


def done_item(done: HistoryRow) -> Item:
    return {"what": done.what, "who": done.who, "why": done.why, "data": done.data, "at": done.at}


def group_item(group: Group) -> Item:
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


def fingerprint_item(known: KnownFingerprint) -> Item:
    return {
        "fingerprint": known.fingerprint,
        "algorithm": known.algorithm,
        "made_of": known.made_of,
        "made_at": known.made_at,
    }


def job_item(job: BulkJob) -> Item:
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


def item_item(item: JobItem) -> Item:
    return {
        "number": item.number,
        "case": item.case_id,
        "state": item.state,
        "said": item.said,
        "done_at": item.done_at,
    }


def rule_item(rule: CorrectionRule) -> Item:
    return {
        "rule": rule.id,
        "flow": rule.flow,
        "field": rule.field,
        "kind": rule.kind,
        "deciders": list(rule.deciders),
        "text": rule.text,
        "state": rule.state,
        "support": rule.support,
        "confidence": rule.confidence,
        "right": rule.right,
        "wrong": rule.wrong,
    }


def touched_item(touched: Touched) -> Item:
    return {
        "case": touched.case_id,
        "edit": touched.edit,
        "field": touched.field,
        "before": touched.before,
        "after": touched.after,
        "verdict": touched.verdict,
        "at": touched.made_at.isoformat(),
        "state": touched.state,
        "record": touched.input,
    }


def text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    """Bytes as text where they are that, else under `<name>_base64`."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _json_line(item: Item) -> str:
    return json.dumps(item, ensure_ascii=False, default=_spell) + "\n"


def _csv_line(item: Item) -> str:
    return _csv_row([_cell(item.get(name)) for name in COLUMNS])


def _csv_row(cells: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return _spell(value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _spell(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
