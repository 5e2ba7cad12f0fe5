"""Policies: what becomes of the errors of flows, tried out on the present cases, added by a form, and withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.desk.policies.service import Caught, PolicyTrial, Withdrawn
from towpath.desk.policies.store import PolicyOrigin, Version
from towpath.errors import BadPolicy, BadValue, ChangedMeanwhile, FieldsMasked, UnknownFlow
from towpath.flow.failures import MEANINGS
from towpath.policy import Ignore, Policy, Rule, described
from towpath.web.auth import FormData, PolicyMaker, Reader, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.filters import link
from towpath.web.console.layout.lists import whole_of
from towpath.web.console.layout.page import page, went
from towpath.web.failures import FlowName

if TYPE_CHECKING:
    from towpath.runtime import Runtime


router = APIRouter(prefix="/desk/policies", include_in_schema=False)

MOST_TRIED = 10_000
TRY = "try"

# Every field of the form, so that what was typed is there again when something is wrong with it.
FIELDS = (
    *("policy", "times", "delays", "delay", "repeats", "factor", "maximum", "list", "jitter", "fields", "then"),
    *("approved_by", "until", "step", "code", "exception", "where"),
)
POLICIES = {
    "isolate": "a case for a person",
    "ignore": "counted, and in front of nobody until it ends",
    "repeat": "again at once",
    "repeat_after": "again after waiting in a lane",
    "correct": "a learned correction that is on",
    "salvage": "loaded without some fields",
}
DELAYS = {
    "constant": "the same wait each time",
    "linear": "once, twice, three times the wait …",
    "exponential": "each wait is the last one times a factor",
    "delays": "these, one after the other",
}
THEN = ("isolate", "ignore")


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule in words. `number` is its place among those of its origin."""

    number: int
    does: str
    match: dict[str, Any]
    approved_by: str | None = None
    until: datetime | None = None


@router.get("")
def policies(request: Request, principal: Reader) -> Response:
    """The rules of every flow that count now, in the order in which they are asked."""
    policies = runtime_of(request).policies
    current: dict[str, list[Version]] = {flow: [] for flow in policies.flows()}
    for version in policies.current():
        current.setdefault(version.flow, []).append(version)
    shown = [(flow, [(each, rules_of(each)) for each in found]) for flow, found in current.items()]
    return page(request, "policies.html", flows=shown)


@router.get("/{flow}")
def policy(request: Request, flow: FlowName, principal: Reader) -> Response:
    """The rules of one flow, all their versions, and, when asked for, what they would have caught."""
    runtime = runtime_of(request)
    policies = runtime.policies
    trial = None
    if request.query_params.get("tried"):
        masks = runtime.desk.masks_for(principal.role)
        trial = policies.try_out(flow, most=MOST_TRIED, masks=masks)
    current = policies.current(flow)
    if not current:
        _check_flow(runtime, flow)
    return page(
        request,
        "policy.html",
        flow=flow,
        current=[(each, rules_of(each)) for each in current],
        versions=[(each, rules_of(each)) for each in policies.versions(flow)],
        trial=trial,
        caught=None if trial is None else {each.rule.id: each for each in trial.caught},
        withdrawn=_wanted(current, whole_of(request, "withdraw")),
    )


@router.get("/{flow}/add")
def add_page(request: Request, flow: FlowName, principal: PolicyMaker) -> Response:
    """Where a rule is written."""
    _check_flow(runtime_of(request), flow)
    query = request.query_params
    typed = {"policy": "isolate", "approved_by": principal.name, "delays": "constant", "then": "isolate"}
    typed |= {name: query[name] for name in ("step", "code", "exception", "policy") if query.get(name)}
    return _form(request, flow, typed, _operators(runtime_of(request), flow))


@router.post("/{flow}/add")
def add(flow: FlowName, act: Act, principal: PolicyMaker) -> Response:
    """Try a rule on the present cases, or let it count. What was typed is not lost when something is wrong with it."""
    form, policies, typed = act.form, act.runtime.policies, typed_in(act.form)
    now = _operators(act.runtime, flow)
    masks = act.runtime.desk.masks_for(principal.role)
    try:
        rules = [rule_of(form), *(() if now is None else (named.rule for named in now.rules))]
        if form.one("wanted") == TRY:
            trial = policies.try_out(flow, rules, most=MOST_TRIED, masks=masks)
            return _form(act.request, flow, typed, now, trial=trial, why=act.why)
        if not act.why:
            raise BadPolicy("say why: that is kept with the rules")
        made = act.make("set policies", flow, lambda: policies.set(flow, rules, **act.by, after=form.whole("after")))
    except (BadPolicy, BadValue, FieldsMasked) as error:
        return _form(act.request, flow, typed, now, wrong=str(error), why=act.why, status=422)
    except ChangedMeanwhile as error:
        return _form(
            act.request, flow, typed, now, wrong=f"{error}. Save again if it is right.", why=act.why, status=409
        )
    return went(f"/desk/policies/{link(flow)}", f"version {made.version} of the operators' rules counts from now on")


@router.post("/{flow}/withdraw")
def withdraw(flow: FlowName, act: Act, principal: PolicyMaker) -> Response:
    """Take away one of the operators' rules; what it has ignored can be opened."""
    form, policies = act.form, act.runtime.policies
    number = form.whole("number")
    now = _operators(act.runtime, flow)
    if number is None or now is None or form.whole("after") != now.version:
        raise ChangedMeanwhile(f"the rules for {flow} have changed since the page was made; look again")
    by = act.by

    def take() -> tuple[Withdrawn, int]:
        gone = policies.withdraw(flow, number, **by)
        return gone, policies.open_ignored(flow, gone.ids, **by) if form.is_ticked("opens") else 0

    def said(made: tuple[Withdrawn, int]) -> str:
        gone, opened = made
        ignored = f"; it had ignored {gone.ignored:,} cases, {opened:,} are open now" if gone.ignored else ""
        return f"the rule is withdrawn{ignored}"

    return act.do("withdraw policy", flow, take, said)


def typed_in(form: FormData) -> dict[str, str]:
    """What was typed, field by field."""
    return {name: form.text(name) for name in FIELDS}


def rule_of(form: FormData) -> Rule:
    """Raises `BadPolicy` with what is wrong; fields that the policy has no use for are left alone."""
    return Rule.from_json({**_policy(form), **_match(form)})


def rules_of(version: Version) -> list[RuleView]:
    """In words. One that a newer Towpath has stored, and this one cannot read, is shown as it is stored."""
    return [_view(number, stored) for number, stored in enumerate(version.stored["policies"])]


def _policy(form: FormData) -> dict[str, Any]:
    kind = form.text("policy")
    match kind:
        case "ignore":
            return _ignore(form)
        case "repeat":
            return {"policy": kind, "times": form.whole("times"), "then": _then(form)}
        case "repeat_after":
            jitter = form.maybe("jitter")
            spread = {} if jitter is None else {"jitter": jitter}
            return {"policy": kind, "delays": _delays(form), "then": _then(form), **spread}
        case "correct":
            return {"policy": kind, "then": _then(form)}
        case "salvage":
            fields = [each.strip() for each in form.text("fields").split(",") if each.strip()]
            return {"policy": kind, "fields": fields, "then": _then(form)}
        case _:
            return {"policy": kind}


def _then(form: FormData) -> dict[str, Any]:
    return _ignore(form) if form.text("then") == "ignore" else {"policy": "isolate"}


def _ignore(form: FormData) -> dict[str, Any]:
    return {"policy": "ignore", "approved_by": form.text("approved_by"), "until": form.text("until")}


def _delays(form: FormData) -> dict[str, Any]:
    kind = form.text("delays")
    if kind == "delays":
        return {"kind": kind, "delays": [each.strip() for each in form.text("list").split(",") if each.strip()]}
    said: dict[str, Any] = {"kind": kind, "delay": form.text("delay"), "times": form.whole("repeats")}
    if kind == "exponential":
        said |= {"factor": form.number("factor") or 2}
        said |= {"maximum": form.text("maximum")} if form.maybe("maximum") else {}
    return said


def _match(form: FormData) -> dict[str, Any]:
    given: dict[str, Any] = {name: form.maybe(name) for name in ("step", "exception", "where")}
    given |= {"code": form.whole("code")}
    return {name: value for name, value in given.items() if value is not None}


def _view(number: int, stored: dict[str, Any]) -> RuleView:
    match: dict[str, Any] = {name: stored[name] for name in ("step", "code", "exception", "where") if name in stored}
    try:
        policy = Rule.from_json(stored).policy
    except BadPolicy:
        return RuleView(number, str(stored), match)
    ends = _ignore_in(policy)
    if ends is None:
        return RuleView(number, described(policy), match)
    return RuleView(number, described(policy), match, ends.approved_by, ends.until)


def _ignore_in(policy: Policy) -> Ignore | None:
    if isinstance(policy, Ignore):
        return policy
    then: Policy | None = getattr(policy, "then", None)
    return None if then is None else _ignore_in(then)


def _wanted(current: Sequence[Version], number: int | None) -> tuple[Version, RuleView] | None:
    """The operators' rule of that number."""
    found = [(each, rule) for each in current if each.origin is PolicyOrigin.OPERATOR for rule in rules_of(each)]
    return next((pair for pair in found if pair[1].number == number), None)


def _check_flow(runtime: Runtime, flow: str) -> None:
    known = runtime.policies.flows()
    if flow not in known:
        raise UnknownFlow(flow, known)


def _operators(runtime: Runtime, flow: str) -> Version | None:
    return next((each for each in runtime.policies.current(flow) if each.origin is PolicyOrigin.OPERATOR), None)


def _form(
    request: Request,
    flow: str,
    typed: dict[str, str],
    now: Version | None,
    *,
    trial: PolicyTrial | None = None,
    wrong: str = "",
    why: str = "",
    status: int = 200,
) -> Response:
    return page(
        request,
        "policy_add.html",
        status=status,
        flow=flow,
        typed=typed,
        after=0 if now is None else now.version,
        trial=trial,
        caught=[] if trial is None else [_said(number, each) for number, each in enumerate(trial.caught)],
        wrong=wrong,
        why=why,
        policies=POLICIES,
        delays=DELAYS,
        then=THEN,
        codes={int(code): meaning for code, meaning in MEANINGS.items()},
    )


def _said(number: int, caught: Caught) -> tuple[RuleView, Caught]:
    return _view(number, caught.rule.rule.to_json()), caught
