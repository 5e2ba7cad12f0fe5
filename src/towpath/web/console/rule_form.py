"""A rule as a form has it: a policy with what belongs to it, and which errors it is for."""

from __future__ import annotations

from typing import Any

from towpath.policy import Rule
from towpath.web.form import Form

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


def typed_in(form: Form) -> dict[str, str]:
    """What was typed, field by field."""
    return {name: form.text(name) for name in FIELDS}


def rule_of(form: Form) -> Rule:
    """Raises `BadPolicy` with what is wrong; fields that the policy has no use for are left alone."""
    return Rule.from_json({**_policy(form), **_match(form)})


def _policy(form: Form) -> dict[str, Any]:
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


def _then(form: Form) -> dict[str, Any]:
    return _ignore(form) if form.text("then") == "ignore" else {"policy": "isolate"}


def _ignore(form: Form) -> dict[str, Any]:
    return {"policy": "ignore", "approved_by": form.text("approved_by"), "until": form.text("until")}


def _delays(form: Form) -> dict[str, Any]:
    kind = form.text("delays")
    if kind == "delays":
        return {"kind": kind, "delays": [each.strip() for each in form.text("list").split(",") if each.strip()]}
    said: dict[str, Any] = {"kind": kind, "delay": form.text("delay"), "times": form.whole("repeats")}
    if kind == "exponential":
        said |= {"factor": form.number("factor") or 2}
        said |= {"maximum": form.text("maximum")} if form.maybe("maximum") else {}
    return said


def _match(form: Form) -> dict[str, Any]:
    given: dict[str, Any] = {name: form.maybe(name) for name in ("step", "exception", "where")}
    given |= {"code": form.whole("code")}
    return {name: value for name, value in given.items() if value is not None}
