"""What not everybody may see of corrections: the values of hidden fields, wherever rules quote them. Pure.

What a rule says about a field quotes the fields that decide it, so that is hidden with any of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from towpath.desk.corrections.correction import Change, Suggestion
from towpath.desk.corrections.rule import Rule
from towpath.desk.corrections.touched_store import Touched
from towpath.desk.masking import MASK, Mask


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a rule: given, value, and how many records and edits say so."""

    given: str
    value: str
    taken: int
    edited: int


def hidden_evidence(rule: Rule, found: Iterable[Evidence], mask: Mask) -> list[Evidence]:
    """Of one rule: the values that decide, and the value that is decided."""
    hides_given = any(map(mask.hides, rule.deciders)) or mask.hides(rule.field)
    hides_value = mask.hides(rule.field)
    return [
        replace(each, given=MASK if hides_given else each.given, value=MASK if hides_value else each.value)
        for each in found
    ]


def hidden_touched(found: Iterable[Touched], mask: Mask) -> list[Touched]:
    """What stood in fields, and what rules have put there."""
    return [replace(each, before=MASK, after=MASK) if mask.hides(each.field) else each for each in found]


def hidden_suggestions(found: Iterable[Suggestion], mask: Mask) -> list[Suggestion]:
    """Of one record. Which field is at fault, and why, is no secret."""
    return [_suggestion(each, mask) for each in found] if mask else list(found)


def _suggestion(found: Suggestion, mask: Mask) -> Suggestion:
    changes = tuple(_change(each, mask) for each in found.changes)
    return replace(found, before=MASK if mask.hides(found.field) else found.before, changes=changes)


def _change(found: Change, mask: Mask) -> Change:
    is_hidden = mask.hides(found.field)
    return replace(
        found,
        before=MASK if is_hidden else found.before,
        after=MASK if is_hidden else found.after,
        said=MASK if is_hidden or any(map(mask.hides, found.deciders)) else found.said,
    )
