"""From what is known and a bad body to suggestions, and to the correction that may be made without asking. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from towpath.desk.corrections.candidates import (
    FieldFault,
    RecordFields,
    SuspectField,
    agreed,
    is_known,
    near_values,
    redated,
    refigured,
    respelt,
    suspects,
)
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.model import (
    CorrectionRule,
    Doubt,
    Flat,
    Proposal,
    RuleKind,
    RuleState,
    Scalar,
    fields_of,
    is_nothing,
    shrunk,
    token,
    tracked,
    value_of,
    with_values,
)
from towpath.desk.corrections.tally import given_by

MOST_CHANGES = 3  # fields of one record that are changed without asking
MEANT_QUALITY = 0.99

MOST_BYTES = 1 << 20  # of a body that is looked at


def suggestions(knowledge: Knowledge, body: bytes, message: str) -> list[Suggestion]:
    """What may be wrong with a record, field by field; nothing if it is no JSON object."""
    return [Suggestion.of(each) for each in _findings(knowledge, body, message)]


def correction(knowledge: Knowledge, body: bytes, message: str) -> Correction | Doubt:
    """The record as it should be, if all that may be wrong with it is sure enough; the untouched bytes stay."""
    findings = _findings(knowledge, body, message)
    found = automatic(findings)
    if isinstance(found, Doubt):
        return found
    befores = {each.suspect.field: each.suspect.value for each in findings}
    changes = tuple(FieldCorrection.of(each, befores[each.rule.field]) for each in found)
    return Correction(changes, with_values(body, {each.field: each.after for each in changes}))


def _findings(knowledge: Knowledge, body: bytes, message: str) -> list[FieldFinding]:
    flat = None if len(body) > MOST_BYTES else fields_of(body)
    return [] if flat is None else examine(knowledge, flat, message)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What may be wrong with a field of a case, what is suggested, and why it is not done without asking."""

    field: str
    before: Scalar
    fault: str
    changes: tuple[FieldCorrection, ...]  # the surest first; none: nothing is suggested
    doubt: Doubt | None

    @classmethod
    def of(cls, finding: FieldFinding) -> Suggestion:
        suspect = finding.suspect
        changes = tuple(FieldCorrection.of(each, suspect.value) for each in finding.proposals)
        return cls(suspect.field, suspect.value, suspect.fault, changes, finding.doubt)

    def to_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "before": self.before,
            "fault": self.fault,
            "changes": [each.to_json() for each in self.changes],
            "doubt": self.doubt,
        }


@dataclass(frozen=True, slots=True)
class Correction:
    """All changes of one record, and the body with them."""

    changes: tuple[FieldCorrection, ...]
    value: bytes

    @property
    def header(self) -> str:
        """What the record says about itself from now on: `rule:7 city; rule:9 country`."""
        return "; ".join(f"rule:{each.rule_id} {each.field}" for each in self.changes)

    @property
    def who(self) -> str:
        return f"rule:{self.changes[0].rule_id}"


@dataclass(frozen=True, slots=True)
class FieldCorrection:
    """One field, what stood there and what is put there, by which rule."""

    rule_id: int
    field: str
    before: Scalar
    after: Scalar
    support: int
    confidence: float
    said: str
    deciders: tuple[str, ...] = ()  # whose values are quoted

    @classmethod
    def of(cls, proposal: Proposal, before: Scalar) -> FieldCorrection:
        rule, found = proposal.rule, (proposal.value, proposal.support, proposal.confidence, proposal.said)
        return cls(rule.id, rule.field, before, *found, rule.deciders)

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.field}: {token(self.before)} → {token(self.after)} ({self.said})"

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule_id,
            "field": self.field,
            "before": self.before,
            "after": self.after,
            "support": self.support,
            "confidence": round(self.confidence, 4),
            "said": self.said,
        }


def examine(knowledge: Knowledge, flat: Flat, message: str = "") -> list[FieldFinding]:
    """What may be wrong with a record, and what its rules say to that."""
    found = suspects(knowledge, flat, message)
    record = RecordFields(flat, frozenset(each.field for each in found))
    return [_finding(knowledge, each, record) for each in found]


def automatic(findings: Sequence[FieldFinding]) -> tuple[Proposal, ...] | Doubt:
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


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """A field that may be at fault, what is proposed for it, and why it is not done without asking; None: it may be."""

    suspect: SuspectField
    proposals: tuple[Proposal, ...]
    doubt: Doubt | None


def _finding(knowledge: Knowledge, suspect: SuspectField, record: RecordFields) -> FieldFinding:
    said = _said(knowledge, suspect, record)
    proposals = sorted((each for each in said if isinstance(each, Proposal)), key=lambda each: -each.confidence)
    if not proposals:
        known = [each for each in said if isinstance(each, Doubt) and each is not Doubt.NO_RULE]
        return FieldFinding(suspect, (), known[0] if known else Doubt.NO_RULE)
    if len({token(each.value) for each in proposals}) > 1:
        return FieldFinding(suspect, tuple(proposals), Doubt.CONFLICT)
    best = _best(proposals)
    rest = tuple(each for each in proposals if each is not best)
    return FieldFinding(suspect, (best, *rest), _doubt(knowledge, suspect, best, said))


def _best(proposals: Sequence[Proposal]) -> Proposal:
    """All propose the same: the surest whose rule is on, with the doubt that is left when they are taken together."""
    best = max(proposals, key=lambda each: (each.rule.state is RuleState.ON, each.is_enough, each.confidence))
    doubt = 1.0
    for each in proposals:
        doubt *= 1 - each.confidence
    return replace(best, confidence=1 - doubt)


def _doubt(
    knowledge: Knowledge, suspect: SuspectField, best: Proposal, said: Sequence[Proposal | Doubt]
) -> Doubt | None:
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


def _is_good_already(knowledge: Knowledge, suspect: SuspectField, rule: CorrectionRule) -> bool:
    """Whether what stands there is a value that the field often has: the fault may lie elsewhere."""
    if suspect.fault is not FieldFault.NAMED or is_nothing(suspect.value):
        return False
    return is_known(knowledge.profile(suspect.field), suspect.value, rule.support)


def _may_be_new(suspect: SuspectField, said: Sequence[Proposal | Doubt]) -> bool:
    """Whether a value that is only unknown, and spelt like no other, would be replaced: it may be right and new."""
    if suspect.fault is not FieldFault.UNKNOWN or suspect.is_named:
        return False
    return not any(isinstance(each, Proposal) and each.rule.kind is not RuleKind.DECIDED for each in said)


def _said(knowledge: Knowledge, suspect: SuspectField, record: RecordFields) -> list[Proposal | Doubt]:
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


def _respelt(
    knowledge: Knowledge, rule: CorrectionRule, value: Scalar, by_others: Proposal | Doubt
) -> Proposal | Doubt:
    """What the spelling says; where it leaves several open, one that other fields decide is as good as confirmed."""
    said = respelt(knowledge, rule, value)
    if said is Doubt.AMBIGUOUS and isinstance(by_others, Proposal) and isinstance(value, str):
        near = near_values(knowledge, rule, value)
        if any(each.value == by_others.value and each.slips == near[0].slips for each in near):
            return replace(by_others, rule=rule)
    return said


def _remembered(knowledge: Knowledge, rule: CorrectionRule, value: Scalar) -> Proposal | Doubt:
    given = None if is_nothing(value) else given_by({rule.field: token(value)}, (rule.field,))
    counts = knowledge.meant(rule.field, given) if given is not None else None
    if not counts:
        return Doubt.NO_RULE
    top, most = counts.most_common(1)[0]
    confidence = tracked(shrunk(most, counts.total(), MEANT_QUALITY), rule)
    return Proposal(rule, value_of(top), most, confidence, f"operators have put it {most} of {counts.total()} times")
