"""Values that other fields decide, and what the rest of the record says to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from towpath.desk.corrections.fields import Flat, Scalar, is_nothing, token, value_of
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.proposal import Doubt, Proposal, shrunk, tracked
from towpath.desk.corrections.rule import Rule, RuleKind
from towpath.desk.corrections.slips import allowed_slips, folded, slips_between
from towpath.desk.corrections.tally import given_by

SECOND = 0.05  # of what the best value has: above it the second best is too near
SPEAKS = 0.95  # share from which one field speaks for or against another
SPEAKS_FROM = 3  # records
CONFIRMED = 0.2  # of the doubt that is left when another field confirms a value


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a bad record. `suspects` are those that are not to be relied on."""

    flat: Flat
    suspects: Collection[str]

    def given(self, rule: Rule, instead: Flat | None = None) -> str | None:
        """What the deciding fields have; None if one is missing or a suspect itself."""
        known = instead or {}
        if any(each in self.suspects and each not in known for each in rule.deciders):
            return None
        values = {each: known.get(each, self.flat.get(each)) for each in rule.deciders}
        tokens = {name: None if is_nothing(value) else token(value) for name, value in values.items()}
        return given_by(tokens, rule.deciders)


def decided(knowledge: Knowledge, rule: Rule, record: Record) -> Proposal | Doubt:
    """What the deciding fields say."""
    given = record.given(rule)
    counts = knowledge.decided(rule, given) if given is not None else None
    if not counts:
        return Doubt.FEW
    (top, most), *others = counts.most_common(2)
    if others and others[0][1] > SECOND * most:
        return Doubt.UNSURE
    quality = knowledge.quality(rule)
    confidence = tracked(shrunk(most, counts.total(), quality), rule)
    said = f"{most} of {counts.total()} records with {_shown(rule, record)}"
    return Proposal(rule, value_of(top), most, confidence, said)


def agreed(knowledge: Knowledge, field: str, record: Record) -> Proposal | Doubt:
    """What all rules together say that decide a field, if they do not contradict each other."""
    said = [decided(knowledge, rule, record) for rule in knowledge.rules_for(field, RuleKind.DECIDED)]
    proposals = [each for each in said if isinstance(each, Proposal)]
    if not proposals:
        return next((each for each in said if isinstance(each, Doubt)), Doubt.NO_RULE)
    if len({token(each.value) for each in proposals}) > 1:
        return Doubt.CONFLICT
    best = max(proposals, key=lambda each: (each.is_enough, each.rule.state == "on", each.confidence, each.support))
    checked = confirmations(knowledge, best, record)
    if isinstance(checked, Doubt):
        return checked
    voices = checked + len({each.rule.deciders for each in proposals if each.support >= SPEAKS_FROM}) - 1
    return replace(best, confidence=1 - (1 - best.confidence) * CONFIRMED ** max(0, voices))


def confirmations(knowledge: Knowledge, proposal: Proposal, record: Record) -> int | Doubt:
    """How many other fields are as they should be with the new value; a doubt if one is not, or a decider is not."""
    field, confirmed = proposal.rule.field, 0
    for rule in knowledge.rules_by(field):
        if rule.field in proposal.rule.deciders:
            continue  # this is the same evidence, the other way round
        given = record.given(rule, {field: proposal.value})
        verdict = None if given is None else speaks(knowledge, rule, given, record)
        if verdict is False:
            return Doubt.CONTRADICTED
        confirmed += verdict is True
    for decider in proposal.rule.deciders:
        for rule in knowledge.rules_for(decider, RuleKind.DECIDED):
            if field in rule.deciders:
                continue
            given = record.given(rule)
            if given is not None and speaks(knowledge, rule, given, record) is False:
                return Doubt.DIRTY
    return confirmed


def speaks(knowledge: Knowledge, rule: Rule, given: str, record: Record) -> bool | None:
    """Whether a field of the record is what the rule would have; None where either has nothing to say."""
    actual = record.flat.get(rule.field)
    if is_nothing(actual) or rule.field in record.suspects:
        return None
    counts = knowledge.decided(rule, given)
    if counts.total() < SPEAKS_FROM:
        return None
    top, most = counts.most_common(1)[0]
    if token(actual) == top or _is_slip(actual, value_of(top)):
        return True if most >= SPEAKS * counts.total() else None
    # A value that was seen with these before is no contradiction by itself.
    return False if counts[token(actual) or ""] <= (1 - SPEAKS) * counts.total() else None


def _is_slip(actual: Scalar, wanted: Scalar) -> bool:
    if not isinstance(actual, str) or not isinstance(wanted, str):
        return False
    most = allowed_slips(wanted)
    return slips_between(folded(actual), folded(wanted), most) <= most


def _shown(rule: Rule, record: Record) -> str:
    return ", ".join(f"{each} {token(record.flat.get(each))}" for each in rule.deciders) or "this field"
