"""Flows as the API shows them: as the command line does with `--json`.

What is said about an error quotes records. Nobody can tell what of it is hidden in them, so that whoever may not see
all fields of a flow's records is not shown it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from towpath.clock import to_datetime
from towpath.desk.desk import Desk
from towpath.desk.masking import MASK, Mask, Masks
from towpath.desk.tracing import CaseTrace, told_item
from towpath.flow.batch_counts import counts_of
from towpath.flow.flow_json import stage_item, stage_view
from towpath.flow.ledger_row import added
from towpath.flow.look import Look
from towpath.flow.past import PastBatches
from towpath.flow.recent import lag_points
from towpath.flow.trace import Seen, Trace
from towpath.web.desk_items import Item

Totals = Mapping[str, Mapping[str, Any]]  # by stage


def stage_shown(look: Look, masks: Masks) -> Item:
    return _hidden(stage_item(look), masks.of(look.stage.flow))


def stage_whole(look: Look, totals: Totals, masks: Masks) -> Item:
    return _hidden(stage_view(look, totals.get(look.stage.name, {})), masks.of(look.stage.flow))


def flow_item(flow: str, stages: Sequence[Look], totals: Totals, masks: Masks) -> Item:
    """A flow with its stages, and what they came to together. A lag is known when all of them know theirs."""
    items = [stage_shown(look, masks) for look in stages]
    lags = [item["lag"] for item in items]
    total: Mapping[str, Any] = {}
    for each in totals.values():
        total = added(total, each)
    return {
        "flow": flow,
        "stages": items,
        "lag": None if None in lags else sum(lags),
        "rate": round(sum(item["rate"] for item in items), 1),
        "counts": counts_of(total),
        "errors": total.get("failed", {}),
    }


def past_item(look: Look, past: PastBatches) -> Item:
    """What batches came to by time, and the lag as the stage has seen it."""
    return {
        "stage": look.stage.name,
        "since": past.since,
        "width_s": past.width.total_seconds(),
        "committed": [
            {"at": each.at, "batches": each.batches, "read": each.read, "failed": dict(each.failed)}
            for each in past.stretches
        ],
        "lag": [
            {"at": to_datetime(point.at * 1_000_000), "lag": point.lag, "rate": point.rate}
            for point in lag_points(look.stage.sample)
        ],
    }


def _hidden(item: Item, mask: Mask) -> Item:
    if not mask:
        return item
    error = item["last_error"]
    reason = MASK if item["reason"] else item["reason"]
    return {**item, "reason": reason, "last_error": None if error is None else {**error, "message": MASK}}


def trace_shown(desk: Desk, flow: str, trace: Trace, cases: Sequence[CaseTrace], masks: Masks) -> Item:
    """A trace without what this person may not see."""
    mask = masks.of(flow)
    if not mask:
        return told_item(trace, cases)
    shown = [_case_shown(desk, case, masks) for case in cases]
    now = shown[-1].now if cases and trace.now == cases[-1].now else trace.now
    hidden = replace(trace, now=now, failures=tuple(_seen(trace, seen, mask) for seen in trace.failures))
    if trace.record is not None:
        hidden = replace(hidden, record=trace.record._replace(key=mask.key(trace.record.key)))
    return told_item(hidden, shown)


def _case_shown(desk: Desk, case: CaseTrace, masks: Masks) -> CaseTrace:
    view = desk.cases.show(case.case.id, masks=masks)
    return replace(case, case=view.case, attempts=view.attempts, done=view.history)


def _seen(trace: Trace, seen: Seen, mask: Mask) -> Seen:
    """Without the record, which is deleted, nobody knows what its message quotes."""
    record, failure = trace.record, seen.record.failure

    def said(text: str) -> str:
        if record is None or record.value is None:
            return MASK if text else text
        return mask.text(text, [record.value], record.key, record.headers)

    hidden = failure._replace(message=said(failure.message), trace=said(failure.trace))
    return replace(seen, record=replace(seen.record, failure=hidden))
