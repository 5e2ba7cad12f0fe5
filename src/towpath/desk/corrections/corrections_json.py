"""Rules, suggestions and what rules have touched, as programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towpath.desk.case import Case
from towpath.desk.corrections.correction import Correction, Suggestion
from towpath.desk.corrections.hiding import Evidence
from towpath.desk.corrections.proposal import Doubt
from towpath.desk.corrections.rule import Rule
from towpath.desk.corrections.touched_store import Touched


def rule_item(rule: Rule) -> dict[str, Any]:
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


def rule_view(rule: Rule, evidence: Sequence[Evidence], touched: Sequence[Touched]) -> dict[str, Any]:
    """A rule with what speaks for it, and what it has changed last."""
    return {
        **rule_item(rule),
        "evidence": [
            {"given": each.given, "value": each.value, "records": each.taken, "edits": each.edited} for each in evidence
        ],
        "touched": [touched_item(each) for each in touched],
    }


def touched_item(touched: Touched) -> dict[str, Any]:
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


def suggestions_item(case: Case, found: Sequence[Suggestion], correction: Correction | Doubt) -> dict[str, Any]:
    """What may be wrong with the record of a case, and why nothing would be done about it without asking."""
    doubt = correction if isinstance(correction, Doubt) else None
    return {"case": case.id, "fields": [each.to_json() for each in found], "doubt": doubt}
