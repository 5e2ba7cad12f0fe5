"""What people want of flows: pause, resume, stop, and a reset after a look at what it would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.principal import Principal
from towpath.errors import BadValue
from towpath.flow.look import Look, looks
from towpath.flow.reset_ahead import EARLIEST, LATEST, MEANS, reset_ahead
from towpath.flow.steering import Steering
from towpath.flow.wish import WishKind
from towpath.web.asking import FlowKeeper, runtime_of
from towpath.web.console.acting import BACK, Act, Acting
from towpath.web.console.filters import link
from towpath.web.console.pages import page

router = APIRouter(prefix="/flows", include_in_schema=False)

NEXT_START = "nobody runs it, so it will be done at the next start (towpath run)"


@router.post("/{flow}/pause")
def pause(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """Let it rest until somebody says resume."""
    return _ask(flow, WishKind.PAUSE, act, principal, "it pauses after its present attempt")


@router.post("/{flow}/resume")
def resume(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """Go on after a pause or a halt; in a wait or an outage, try now."""
    return _ask(flow, WishKind.RESUME, act, principal, "it goes on")


@router.post("/{flow}/stop")
def stop(flow: str, act: Act, principal: FlowKeeper) -> Response:
    """End it after its present batch."""
    return _ask(flow, WishKind.STOP, act, principal, "it ends after its present batch")


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
        stages=[look.stage.name for look in looks(runtime.database, flow)],
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
    return _ask(flow, WishKind.RESET, act, principal, f"it begins anew at the {to}", {"to": to})


def _ask(
    flow: str, kind: WishKind, act: Acting, principal: Principal, will: str, arguments: Mapping[str, Any] | None = None
) -> Response:
    steering = Steering(act.runtime.database, act.runtime.event_log)
    stage = act.form.maybe("stage")
    return act.do(
        principal,
        f"{kind} flow",
        flow if stage is None else f"{flow}/{stage}",
        lambda: steering.ask(flow, kind, who=principal.name, why=act.why, stage=stage, arguments=arguments),
        lambda asked: _said(asked, will),
        act.form.one(BACK) or f"/flows/{link(flow)}",
    )


def _said(asked: Sequence[Look], will: str) -> str:
    names = ", ".join(look.stage.name for look in asked)
    return f"asked of {names}: {will if any(look.is_run for look in asked) else NEXT_START}"


def _checked_to(to: str) -> str:
    if to not in (EARLIEST, LATEST):
        raise BadValue(f"to: {EARLIEST} or {LATEST}, not {to!r}")
    return to
