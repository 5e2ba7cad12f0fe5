"""Suggestions for a bad record, and the correction that may be made without asking. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from towpath.desk.corrections.deciding import Record, agreed
from towpath.desk.corrections.fields import Flat, Scalar, is_nothing, token, value_of
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.proposal import Doubt, Proposal, shrunk, tracked
from towpath.desk.corrections.reformatting import redated, refigured
from towpath.desk.corrections.respelling import is_known, near_values, respelt
from towpath.desk.corrections.rule import Rule, RuleKind
from towpath.desk.corrections.rule_state import RuleState
from towpath.desk.corrections.suspects import Fault, Suspect, suspects
from towpath.desk.corrections.tally import given_by

MOST_CHANGES = 3  # fields of one record that are changed without asking
MEANT_QUALITY = 0.99


@dataclass(frozen=True, slots=True)
class Finding:
    """A field that may be at fault, what is proposed for it, and why it is not done without asking; None: it may be."""

    suspect: Suspect
    proposals: tuple[Proposal, ...]
    doubt: Doubt | None


def examine(knowledge: Knowledge, flat: Flat, message: str = "") -> list[Finding]:
    """What may be wrong with a record, and what its rules say to that."""
    found = suspects(knowledge, flat, message)
    record = Record(flat, frozenset(each.field for each in found))
    return [_finding(knowledge, each, record) for each in found]


def automatic(findings: Sequence[Finding]) -> tuple[Proposal, ...] | Doubt:
    """The changes that may be made without asking: one for every field that may be at fault, or none at all.

    A record that is mended in part fails again.
    """
    if not findings:
        return Doubt.NOTHING_WRONG
    doubt = next((each.doubt for each in findings if each.doubt is not None), None)
    if doubt is not None:
        return doubt
    if len(findings) > MOST_CHANGES:
        return Doubt.AMBIGUOUS
    return tuple(each.proposals[0] for each in findings)


def _finding(knowledge: Knowledge, suspect: Suspect, record: Record) -> Finding:
    said = _said(knowledge, suspect, record)
    proposals = sorted((each for each in said if isinstance(each, Proposal)), key=lambda each: -each.confidence)
    if not proposals:
        known = [each for each in said if isinstance(each, Doubt) and each is not Doubt.NO_RULE]
        return Finding(suspect, (), known[0] if known else Doubt.NO_RULE)
    if len({token(each.value) for each in proposals}) > 1:
        return Finding(suspect, tuple(proposals), Doubt.CONFLICT)
    best = _best(proposals)
    rest = tuple(each for each in proposals if each is not best)
    return Finding(suspect, (best, *rest), _doubt(knowledge, suspect, best, said))


def _best(proposals: Sequence[Proposal]) -> Proposal:
    """All propose the same: the surest whose rule is on, with the doubt that is left when they are taken together."""
    best = max(proposals, key=lambda each: (each.rule.state is RuleState.ON, each.is_enough, each.confidence))
    doubt = 1.0
    for each in proposals:
        doubt *= 1 - each.confidence
    return replace(best, confidence=1 - doubt)


def _doubt(knowledge: Knowledge, suspect: Suspect, best: Proposal, said: Sequence[Proposal | Doubt]) -> Doubt | None:
    for doubt in (Doubt.CONTRADICTED, Doubt.DIRTY, Doubt.CONFLICT):
        if doubt in said:
            return doubt
    if best.support < best.rule.support:
        return Doubt.FEW
    if best.confidence < best.rule.confidence:
        return Doubt.UNSURE
    if _is_good_already(knowledge, suspect, best.rule) or _may_be_new(suspect, said):
        return Doubt.UNCONFIRMED
    return None if best.rule.state is RuleState.ON else Doubt.NOT_ON


def _is_good_already(knowledge: Knowledge, suspect: Suspect, rule: Rule) -> bool:
    """Whether what stands there is a value that the field often has: the fault may lie elsewhere."""
    if suspect.fault is not Fault.NAMED or is_nothing(suspect.value):
        return False
    return is_known(knowledge.profile(suspect.field), suspect.value, rule.support)


def _may_be_new(suspect: Suspect, said: Sequence[Proposal | Doubt]) -> bool:
    """Whether a value that is only unknown, and spelt like no other, would be replaced: it may be right and new."""
    if suspect.fault is not Fault.UNKNOWN or suspect.is_named:
        return False
    return not any(isinstance(each, Proposal) and each.rule.kind is not RuleKind.DECIDED for each in said)


def _said(knowledge: Knowledge, suspect: Suspect, record: Record) -> list[Proposal | Doubt]:
    said: list[Proposal | Doubt] = [agreed(knowledge, suspect.field, record)]
    for rule in knowledge.rules_for(suspect.field, RuleKind.SLIP):
        said.append(_respelt(knowledge, rule, suspect.value, said[0]))
    for rule in knowledge.rules_for(suspect.field, RuleKind.DATE):
        said.append(redated(knowledge, rule, record))
    for rule in knowledge.rules_for(suspect.field, RuleKind.NUMBER):
        said.append(refigured(knowledge, rule, record))
    for rule in knowledge.rules_for(suspect.field, RuleKind.MEANT):
        said.append(_remembered(knowledge, rule, suspect.value))
    return said


def _respelt(knowledge: Knowledge, rule: Rule, value: Scalar, by_others: Proposal | Doubt) -> Proposal | Doubt:
    """What the spelling says; where it leaves several open, one that other fields decide is as good as confirmed."""
    said = respelt(knowledge, rule, value)
    if said is Doubt.AMBIGUOUS and isinstance(by_others, Proposal) and isinstance(value, str):
        near = near_values(knowledge, rule, value)
        if any(each.value == by_others.value and each.slips == near[0].slips for each in near):
            return replace(by_others, rule=rule)
    return said


def _remembered(knowledge: Knowledge, rule: Rule, value: Scalar) -> Proposal | Doubt:
    given = None if is_nothing(value) else given_by({rule.field: token(value)}, (rule.field,))
    counts = knowledge.meant(rule.field, given) if given is not None else None
    if not counts:
        return Doubt.NO_RULE
    top, most = counts.most_common(1)[0]
    confidence = tracked(shrunk(most, counts.total(), MEANT_QUALITY), rule)
    return Proposal(rule, value_of(top), most, confidence, f"operators have put it {most} of {counts.total()} times")
