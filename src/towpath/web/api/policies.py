"""Policies: what becomes of the errors of flows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from towpath.desk.policies.service import PolicyTrial, Withdrawn
from towpath.desk.policies.store import PolicyOrigin, Version
from towpath.operations.model import LARGEST, Item, RequestBody, Why
from towpath.policy import Rule
from towpath.web.auth import PolicyMaker, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX, FlowName

router = APIRouter(prefix=f"{PREFIX}/policies", tags=["policies"])

MOST_RULES = 200
MOST_TRIED = 100_000


class Versions(BaseModel):
    """Versions of rules."""

    items: list[Item]


class PolicyTrialRequest(RequestBody):
    """Rules to try; without them, those that count now."""

    rules: list[dict[str, Any]] | None = Field(None, max_length=MOST_RULES)
    most: int = Field(10_000, ge=1, le=MOST_TRIED, description="How many cases to look at, the newest first.")

    def read(self) -> list[Rule] | None:
        return None if self.rules is None else [Rule.from_json(each) for each in self.rules]


class NewRules(RequestBody):
    """Operators' rules, in place of those they had."""

    rules: list[dict[str, Any]] = Field(max_length=MOST_RULES)
    after: int | None = Field(None, ge=0, le=LARGEST, description="Refuse when another version counts by now.")
    why: Why


class RuleWithdrawal(RequestBody):
    """A rule to be taken away, by its number in the version that counts."""

    number: int = Field(ge=0, le=MOST_RULES)
    opens: bool = Field(False, description="Open the cases that the rule has ignored.")
    why: Why


@router.get("")
def current(request: Request, principal: Reader, flow: Annotated[str | None, Query(max_length=300)] = None) -> Versions:
    """The rules that count now, in the order in which they are asked."""
    return Versions(items=[version_item(each) for each in runtime_of(request).policies.current(flow)])


@router.get("/{flow}")
def versions(request: Request, flow: FlowName, principal: Reader) -> Versions:
    """All versions of a flow's rules, the newest first."""
    return Versions(items=[version_item(each) for each in runtime_of(request).policies.versions(flow)])


@router.post("/{flow}/count")
def try_(request: Request, flow: FlowName, sent: PolicyTrialRequest, principal: Reader) -> Item:
    """How many of the present cases each rule would have caught. Changes nothing."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    return trial_item(runtime.policies.try_out(flow, sent.read(), most=sent.most, masks=masks))


@router.post("/{flow}", response_model=Item)
def set_(request: Request, flow: FlowName, sent: NewRules, principal: PolicyMaker, maker: Maker) -> Response:
    """Put rules before those in the flow's code. They count for errors that come from now on."""
    policies = runtime_of(request).policies

    def act() -> Version:
        rules = [Rule.from_json(each) for each in sent.rules]
        return policies.set(flow, rules, **maker.by(sent.why), after=sent.after)

    def show(made: Version | None) -> Item:
        found = made or next(each for each in policies.current(flow) if each.origin is PolicyOrigin.OPERATOR)
        return version_item(found)

    return maker.make("set policies", flow, act, show)


@router.post("/{flow}/withdraw", response_model=Item)
def withdraw(request: Request, flow: FlowName, sent: RuleWithdrawal, principal: PolicyMaker, maker: Maker) -> Response:
    """Take away one of the operators' rules; what it has ignored can be opened."""
    policies = runtime_of(request).policies

    def act() -> tuple[Withdrawn, int]:
        gone = policies.withdraw(flow, sent.number, **maker.by(sent.why))
        opened = policies.open_ignored(flow, gone.ids, **maker.by(sent.why)) if sent.opens else 0
        return gone, opened

    def show(made: tuple[Withdrawn, int] | None) -> Item:
        if made is None:  # the answer was lost; what is not open yet can be opened as cases
            return {"versions": [version_item(each) for each in policies.current(flow)]}
        gone, opened = made
        return {**version_item(gone.version), "ignored": gone.ignored, "opened": opened}

    return maker.make("withdraw policy", flow, act, show)


def version_item(version: Version) -> Item:
    return {
        "flow": version.flow,
        "origin": version.origin,
        "version": version.version,
        "rules": version.stored["policies"],
        "error_topic": version.error_topic,
        "who": version.who,
        "why": version.why,
        "made_at": version.made_at,
    }


def trial_item(trial: PolicyTrial) -> Item:
    rules = [
        {
            "name": each.rule.id,
            "rule": each.rule.rule.to_json(),
            "cases": each.cases,
            "decisions": each.decisions,
            "unreadable": each.unreadable,
        }
        for each in trial.caught
    ]
    return {"cases": trial.cases, "is_all": trial.is_all, "uncaught": trial.uncaught, "rules": rules}
