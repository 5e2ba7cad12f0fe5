"""Learned corrections: rules, what they suggest and have touched, and how right they are."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from towpath.desk.corrections.model import CorrectionRule, RuleState
from towpath.desk.corrections.service import Reverted
from towpath.desk.corrections.store import Touched, TouchedMark
from towpath.errors import BadValue
from towpath.operations.cases import rule_item, rule_view, suggestions_item, touched_item
from towpath.operations.model import LARGEST, Item, MarkedPage, Reason, RequestBody, Why
from towpath.web.api.desk_request import id_of
from towpath.web.auth import PolicyMaker, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX, FlowName, Limit, Number

router = APIRouter(prefix=f"{PREFIX}/desk", tags=["corrections"])

_MARK = re.compile(r"(\d{1,18})/([0-9a-f-]{36})/(\d{1,9})/(.{1,400})", re.ASCII)


class CorrectionRules(BaseModel):
    """Rules, in the order in which they were found."""

    items: list[Item]


class TurnedOn(RequestBody):
    """A rule that may change records without asking; thresholds that are not given stay as they are."""

    support: int | None = Field(None, ge=1, le=LARGEST, description="Records that must say the same.")
    confidence: float | None = Field(None, ge=0.5, le=1, description="How sure it has to be.")
    why: Why


@router.get("/rules")
def rules(
    request: Request,
    principal: Reader,
    flow: Annotated[str | None, Query(max_length=300)] = None,
    state: RuleState | None = None,
) -> CorrectionRules:
    """Rules of learned corrections."""
    return CorrectionRules(items=[rule_item(each) for each in runtime_of(request).corrections.rules(flow, state)])


@router.get("/rules/{rule}")
def show(request: Request, rule: Number, principal: Reader, limit: Limit = 20) -> Item:
    """One rule: the strongest evidence for it, and what it has changed last."""
    runtime = runtime_of(request)
    return rule_view(*runtime.corrections.show(rule, limit, masks=runtime.desk.masks_for(principal.role)))


@router.get("/rules/{rule}/touched")
def touched(
    request: Request,
    rule: Number,
    principal: Reader,
    limit: Limit = 100,
    before: Annotated[str | None, Query(max_length=500, description="Go on where a page ended: its `next`.")] = None,
) -> MarkedPage[Item]:
    """Every field that a rule has changed without asking, the newest first."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    mark = None if before is None else read_mark(before)
    found = runtime.corrections.touched(rule, limit + 1, mark, masks=masks)
    part = found[:limit]
    next_ = mark_text(part[-1]) if len(found) > limit else None
    return MarkedPage(items=[touched_item(each) for each in part], next=next_)


@router.post("/rules/{rule}/on", response_model=Item)
def turn_on(request: Request, rule: Number, sent: TurnedOn, principal: PolicyMaker, maker: Maker) -> Response:
    """Let a rule change records without asking, above its thresholds, where the policy is `correct`."""
    corrections = runtime_of(request).corrections

    def act() -> CorrectionRule:
        return corrections.turn_on(rule, **maker.by(sent.why), support=sent.support, confidence=sent.confidence)

    return maker.make("turn on rule", rule, act, lambda _: rule_item(corrections.rule(rule)))


@router.post("/rules/{rule}/off", response_model=Item)
def turn_off(request: Request, rule: Number, sent: Reason, principal: PolicyMaker, maker: Maker) -> Response:
    """Let a rule neither change nor suggest anything."""
    corrections = runtime_of(request).corrections

    def act() -> CorrectionRule:
        return corrections.turn_off(rule, **maker.by(sent.why))

    return maker.make("turn off rule", rule, act, lambda _: rule_item(corrections.rule(rule)))


@router.post("/rules/{rule}/revert", response_model=Item)
def revert(request: Request, rule: Number, sent: Reason, principal: PolicyMaker, maker: Maker) -> Response:
    """Do not believe a rule any more, and take back what has not gone out yet. `/touched` lists all that it changed.

    Asked again, it goes on where it was cut off.
    """
    corrections = runtime_of(request).corrections

    def show(made: Reverted | None) -> Item:
        found = rule_item(corrections.rule(rule))
        if made is None:  # the answer was lost
            return {**found, "touched": None, "taken_back": None}
        return {**found, "touched": len(made.touched), "taken_back": list(made.taken_back)}

    return maker.make("revert rule", rule, lambda: corrections.revert(rule, **maker.by(sent.why)), show)


@router.get("/corrections/{flow}/report")
def report(request: Request, flow: FlowName, principal: Reader) -> Item:
    """How right the rules of a flow are: by what became of the records, and by what operators have put."""
    return runtime_of(request).corrections.report(flow).to_json()


@router.get("/cases/{case}/suggestions")
def suggestions(request: Request, case: str, principal: Reader) -> Item:
    """What may be wrong with the record of a case, and what is suggested for it."""
    runtime = runtime_of(request)
    corrections, desk = runtime.corrections, runtime.desk
    found, fields = corrections.suggest(id_of(desk, case), masks=desk.masks_for(principal.role))
    return suggestions_item(found, fields, corrections.correction(found.id))


def mark_text(touched: Touched) -> str:
    """For the page after this one."""
    return "/".join(map(str, touched.mark))


def read_mark(text: str) -> TouchedMark:
    """Where a page ended; raises `BadValue`."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise BadValue("before: write what a page had under `next`")
    return TouchedMark(int(found[1]), found[2], int(found[3]), found[4])
