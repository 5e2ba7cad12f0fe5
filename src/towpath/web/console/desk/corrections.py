"""Learned corrections: rules, the evidence for them, how right they are, what they have touched, and their switch."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.desk.corrections.model import MOVES, RuleState
from towpath.desk.corrections.service import Reverted
from towpath.web.api.corrections import mark_text, read_mark
from towpath.web.auth import PolicyMaker, Reader, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import chosen, enum_of
from towpath.web.console.layout.page import page
from towpath.web.failures import Number

router = APIRouter(prefix="/desk/corrections", include_in_schema=False)

ROWS = 50
EVIDENCE = 20


@router.get("")
def corrections(request: Request, principal: Reader) -> Response:
    """Rules of each flow, with how right they are: by what became of the records, and by what operators have put."""
    corrections = runtime_of(request).corrections
    flow = chosen(request, "flow").get("flow")
    text = request.query_params.get("state")
    state = enum_of(RuleState, "state", text) if text else None
    flows = sorted({rule.flow for rule in corrections.rules(flow)})
    return page(
        request,
        "corrections.html",
        reports=[corrections.report(each) for each in flows],
        state=state,
        states=list(RuleState),
    )


@router.get("/{number}")
def correction(request: Request, number: Number, principal: Reader) -> Response:
    """One rule: the strongest evidence for it, how right it was, and every field that it has changed."""
    runtime = runtime_of(request)
    corrections, masks = runtime.corrections, runtime.desk.masks_for(principal.role)
    rule, evidence, _ = corrections.show(number, EVIDENCE, masks=masks)
    before = request.query_params.get("before", "")
    touched = corrections.touched(number, ROWS + 1, read_mark(before) if before else None, masks=masks)
    report = corrections.report(rule.flow)
    return page(
        request,
        "correction.html",
        rule=rule,
        evidence=evidence,
        touched=touched[:ROWS],
        next=mark_text(touched[ROWS - 1]) if len(touched) > ROWS else None,
        figures=next(each for each in report.rules if each.rule.id == rule.id),
        report=report,
        moves=MOVES[rule.state],
    )


@router.post("/{number}/on")
def turn_on(number: Number, act: Act, principal: PolicyMaker) -> Response:
    """Let a rule change records without asking, above its thresholds, where the policy is `correct`."""
    form, corrections = act.form, act.runtime.corrections
    return act.do(
        "turn on rule",
        number,
        lambda: corrections.turn_on(
            number,
            **act.by,
            support=form.whole("support"),
            confidence=form.number("confidence"),
        ),
        "it is on: where the policy is correct, it changes records without asking",
    )


@router.post("/{number}/off")
def turn_off(number: Number, act: Act, principal: PolicyMaker) -> Response:
    """Let a rule neither change nor suggest anything."""
    corrections = act.runtime.corrections
    return act.do(
        "turn off rule",
        number,
        lambda: corrections.turn_off(number, **act.by),
        "it is off: it neither changes nor suggests anything",
    )


@router.post("/{number}/revert")
def revert(number: Number, act: Act, principal: PolicyMaker) -> Response:
    """Do not believe a rule any more, and take back what has not gone out yet. All that it changed is listed."""
    corrections = act.runtime.corrections

    def said(made: Reverted) -> str:
        return (
            f"it is reverted: it had touched {len(made.touched):,} fields, which are listed below; "
            f"{len(made.taken_back):,} cases go out as they came"
        )

    return act.do("revert rule", number, lambda: corrections.revert(number, **act.by), said)
