"""What people want of flows: pause, resume, stop, a reset after a look at what it would do; and the audit of a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.desk.record_queries import DeskPlaceSource
from towpath.errors import BadValue
from towpath.flow.audit.audit import audit_within, ledger_balance
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.stage.history import EARLIEST, LATEST, MEANS, reset_ahead
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.status import StageCommands, StageStatus, stage_statuses
from towpath.web.auth import FlowKeeper, Reader, runtime_of
from towpath.web.console.layout.action import BACK, Act, PageAction
from towpath.web.console.layout.filters import link
from towpath.web.console.layout.page import page

router = APIRouter(prefix="/flows", include_in_schema=False)

NEXT_START = "nobody runs it, so it will be done at the next start (towpath run)"
LONGEST_S = 5.0
MOST_SHOWN = 100

MEANINGS = {
    RecordPlace.LOADED: "every output that was to have it has it",
    RecordPlace.FILTERED: "a step gave nothing for it",
    RecordPlace.AGGREGATED: "it went into a sum with others",
    RecordPlace.UNMATCHED: "a join has found no partner for it",
    RecordPlace.JOINING: "a join keeps it until its partner comes",
    RecordPlace.FAILED: "in the error topic; the desk has not come to it",
    RecordPlace.WAITING: "in a lane, to be tried again",
    RecordPlace.PARKED: "behind another record of its key",
    RecordPlace.OPEN: "on the desk, in front of a person",
    RecordPlace.REPLAYING: "sent back into the flow; outcome not known yet",
    RecordPlace.RESENT: "sent to the source again, as a new record",
    RecordPlace.IGNORED: "dismissed by an approved rule",
    RecordPlace.ABANDONED: "dismissed by a person",
    RecordPlace.BLOCKED: "a block rule keeps it out",
    RecordPlace.DUPLICATE: "its sender had sent it before",
    RecordPlace.FORFEITED: "at most once: nobody knows whether it was written",
    RecordPlace.IN_FLIGHT: "in the topic, not read yet",
    RecordPlace.SKIPPED: "deleted before it was read",
}


@router.post("/{flow}/pause")
def pause(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """Let it rest until somebody says resume."""
    return _ask(flow, StageCommandKind.PAUSE, act, "it pauses after its present attempt")


@router.post("/{flow}/resume")
def resume(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """Go on after a pause or a halt; in a wait or an outage, try now."""
    return _ask(flow, StageCommandKind.RESUME, act, "it goes on")


@router.post("/{flow}/stop")
def stop(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """End it after its present batch."""
    return _ask(flow, StageCommandKind.STOP, act, "it ends after its present batch")


@router.get("/{flow}/reset")
def before_reset(request: Request, flow: str, principal: FlowKeeper) -> Response:
    """What a reset would do, before anybody asks for it."""
    runtime = runtime_of(request)
    to = _checked_to(request.query_params.get("to") or EARLIEST)
    stage = request.query_params.get("stage") or None
    ahead = reset_ahead(runtime.database, runtime.log, flow, to, stage)
    return page(
        request,
        "reset.html",
        flow=flow,
        stage=stage,
        stages=[look.stage.name for look in stage_statuses(runtime.database, flow)],
        to=to,
        ways=(EARLIEST, LATEST),
        means=MEANS[to],
        ahead=[each for each in ahead if each.end or each.position],
        passed_over=sum(each.passed_over for each in ahead),
        read_again=sum(each.read_again for each in ahead),
    )


@router.post("/{flow}/reset")
def reset(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """Begin anew from other positions."""
    to = _checked_to(act.form.one("to"))
    return _ask(flow, StageCommandKind.RESET, act, f"it begins anew at the {to}", {"to": to})


@router.get("/{flow}/audit")
def audit(request: Request, flow: str, principal: Reader) -> Response:
    """The ledger's balance at once; with `count`, records are counted for a few seconds at most."""
    runtime = runtime_of(request)
    database, places = runtime.database, DeskPlaceSource(runtime.database)
    said = ledger_balance(database, flow, places)
    is_counted = bool(request.query_params.get("count"))
    counted = None
    if is_counted:
        error_topic = runtime.policies.error_topic(flow)
        counted = audit_within(database, runtime.log, flow, LONGEST_S, error_topic, places)
    verdict = None if counted is None else counted.verdict
    return page(
        request,
        "audit.html",
        flow=flow,
        ledger=said,
        why=None if counted is None else counted.why,
        verdict=verdict,
        balance=None if verdict is None else verdict.balance,
        places=[place for place in RecordPlace if place.is_balanced],
        problems=() if verdict is None else verdict.problems[:MOST_SHOWN],
        meanings=MEANINGS,
        longest_s=LONGEST_S,
    )


def _ask(
    flow: str,
    kind: StageCommandKind,
    act: PageAction,
    will: str,
    arguments: Mapping[str, Any] | None = None,
) -> Response:
    commands = StageCommands(act.runtime.database, act.runtime.event_log)
    stage = act.form.maybe("stage")
    return act.do(
        f"{kind} flow",
        flow if stage is None else f"{flow}/{stage}",
        lambda: commands.ask(flow, kind, **act.by, stage=stage, arguments=arguments),
        lambda asked: _said(asked, will),
        act.form.one(BACK) or f"/flows/{link(flow)}",
    )


def _said(asked: Sequence[StageStatus], will: str) -> str:
    names = ", ".join(look.stage.name for look in asked)
    return f"asked of {names}: {will if any(look.is_run for look in asked) else NEXT_START}"


def _checked_to(to: str) -> str:
    if to not in (EARLIEST, LATEST):
        raise BadValue(f"to: {EARLIEST} or {LATEST}, not {to!r}")
    return to
