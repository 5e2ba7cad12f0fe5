"""What may be wrong with a bad record (`suspects`), and what each kind of rule proposes for a field. Pure.

`agreed`: other fields decide the value, and the rest of the record does not contradict it. `redated`, `refigured`:
the same day or number in the way in which the field has it, where that leaves no doubt. `respelt`: the one known
value that differs by a typing slip.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from towpath.desk.corrections.formats import (
    Amount,
    DateReading,
    NearValue,
    allowed_slips,
    amounts,
    decimal_of,
    folded,
    nearest,
    readings,
    slips_between,
)
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.model import (
    Aspect,
    CorrectionRule,
    Doubt,
    Flat,
    Proposal,
    RuleKind,
    Scalar,
    is_nothing,
    shrunk,
    token,
    tracked,
    type_of,
    value_of,
)
from towpath.desk.corrections.tally import PLAIN, Profile, given_by, scale_of

PLAIN_READING = 0.999  # confidence in a text that can be read in one way only
ORDER_QUALITY = 0.99
ALIKE = 0.95  # share of the taken records that have the layout
_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}

SLIP_CHANCE = 0.01  # of one more slip in the same word
KNOWN = 0.0005  # share of the records from which a value counts as known

USUAL = 0.98  # share of the taken records that are otherwise
CLOSED = 0.02  # chance of a new value below which a list of values counts as complete
LEAST_RECORDS = 50

SECOND = 0.05  # of what the best value has: above it the second best is too near
SPEAKS = 0.95  # share from which one field speaks for or against another
SPEAKS_FROM = 3  # records
CONFIRMED = 0.2  # of the doubt that is left when another field confirms a value


def suspects(knowledge: Knowledge, flat: Flat, message: str) -> list[SuspectField]:
    """The fields that may be at fault: those that the failure names, or all that look unusual if it names none."""
    odd = {name: fault for name in knowledge.fields if (fault := _fault(knowledge, name, flat)) is not None}
    named = {name: odd.get(name, FieldFault.NAMED) for name in _named(knowledge, message)}
    return [SuspectField(name, flat.get(name), fault, bool(named)) for name, fault in sorted((named or odd).items())]


@dataclass(frozen=True, slots=True)
class SuspectField:
    """A field, what stands in it and what is wrong with it."""

    field: str
    value: Scalar
    fault: FieldFault
    is_named: bool  # by the failure


class FieldFault(StrEnum):
    """What is wrong with a field."""

    MISSING = "missing"
    TYPE = "another type than usual"
    LAYOUT = "another layout than usual"
    UNKNOWN = "not one of the known values"
    NAMED = "the failure names it"


def _named(knowledge: Knowledge, message: str) -> Iterator[str]:
    """Fields by whose name a failure is: `field city: expected …`, or one in quotes."""
    found = set(re.findall(r"\bfield ['\"`]?([\w.\-]+)", message)) | set(re.findall(r"['\"`]([\w.\-]+)['\"`]", message))
    return (name for name in knowledge.fields if name in found)


def _fault(knowledge: Knowledge, name: str, flat: Flat) -> FieldFault | None:
    profile, value = knowledge.profile(name), flat.get(name)
    if profile.records < LEAST_RECORDS:
        return None
    if is_nothing(value):
        is_value = value is not None and profile.values[token(value) or ""] > 0
        return FieldFault.MISSING if profile.present_share >= USUAL and not is_value else None
    if _has_odd_layout(profile, value):
        return FieldFault.LAYOUT
    if _has_odd_type(profile, value):
        return FieldFault.TYPE
    return FieldFault.UNKNOWN if _is_unknown(knowledge, profile, value) else None


def _has_odd_type(profile: Profile, value: Scalar) -> bool:
    own = "number" if type_of(value) in ("integer", "number") else type_of(value)
    return profile.type_share(own) < 1 - USUAL


def _has_odd_layout(profile: Profile, value: Scalar) -> bool:
    if (found := profile.date_layout) and found[1] >= USUAL and isinstance(value, str):
        return not any(each.layout == found[0] for each in readings(value))
    if (number := profile.number_layout) and number[1] >= USUAL and profile.of(Aspect.SCALE):
        return isinstance(value, str) and (number[0] == PLAIN or decimal_of(value) is None)
    return False


def _is_unknown(knowledge: Knowledge, profile: Profile, value: Scalar) -> bool:
    rules = knowledge.rules_for(profile.name, RuleKind.SLIP)
    return bool(rules) and profile.unseen <= CLOSED and not is_known(profile, value, rules[0].support)


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of a bad record. `suspects` are those that are not to be relied on."""

    flat: Flat
    suspects: Collection[str]

    def given(self, rule: CorrectionRule, instead: Flat | None = None) -> str | None:
        """What the deciding fields have; None if one is missing or a suspect itself."""
        known = instead or {}
        if any(each in self.suspects and each not in known for each in rule.deciders):
            return None
        values = {each: known.get(each, self.flat.get(each)) for each in rule.deciders}
        tokens = {name: None if is_nothing(value) else token(value) for name, value in values.items()}
        return given_by(tokens, rule.deciders)


def agreed(knowledge: Knowledge, field: str, record: RecordFields) -> Proposal | Doubt:
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


def decided(knowledge: Knowledge, rule: CorrectionRule, record: RecordFields) -> Proposal | Doubt:
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


def confirmations(knowledge: Knowledge, proposal: Proposal, record: RecordFields) -> int | Doubt:
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


def speaks(knowledge: Knowledge, rule: CorrectionRule, given: str, record: RecordFields) -> bool | None:
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


def _shown(rule: CorrectionRule, record: RecordFields) -> str:
    return ", ".join(f"{each} {token(record.flat.get(each))}" for each in rule.deciders) or "this field"


def redated(knowledge: Knowledge, rule: CorrectionRule, record: RecordFields) -> Proposal | Doubt:
    """The day of a text in the layout of the field."""
    value, profile = record.flat.get(rule.field), knowledge.profile(rule.field)
    found = profile.date_layout
    if found is None or not isinstance(value, str):
        return Doubt.NO_RULE
    layout, share = found
    if share < ALIKE:
        return Doubt.UNSURE
    possible = [each for each in readings(value) if each.layout.time == layout.time and _is_in_time(profile, each)]
    if not possible or any(each.layout == layout for each in possible):
        return Doubt.NO_RULE if possible else Doubt.FEW
    support, said = profile.present, f"{share:.1%} of the records have {layout.write(possible[0].day)!r} and the like"
    confidence = PLAIN_READING
    if len({each.day for each in possible}) > 1:
        orders = _voted(knowledge, rule, record, {f"{each.layout.family}:{each.layout.order}" for each in possible})
        if isinstance(orders, Doubt):
            return orders
        order, support, confidence = orders
        possible = [each for each in possible if f"{each.layout.family}:{each.layout.order}" == order]
        said = f"{support} failing records like it have {order.rpartition(':')[2]}"
    [chosen, *_] = possible
    text = layout.write(chosen.day, is_padded=profile.is_padded) + chosen.time
    return Proposal(rule, text, support, tracked(confidence, rule), said)


def _is_in_time(profile: Profile, reading: DateReading) -> bool:
    """Whether records of that year, or one next to it, were taken."""
    years = profile.usual(Aspect.YEAR)
    return bool(years) and min(years) - 1 <= reading.day.year <= max(years) + 1


def refigured(knowledge: Knowledge, rule: CorrectionRule, record: RecordFields) -> Proposal | Doubt:
    """The number of a text as the field has numbers."""
    value, profile = record.flat.get(rule.field), knowledge.profile(rule.field)
    found = profile.number_layout
    if found is None or not isinstance(value, str):
        return Doubt.NO_RULE
    layout, share = found
    if share < ALIKE:
        return Doubt.UNSURE
    possible = [each for each in amounts(value) if _fits(profile, each, layout)]
    if not possible:
        return Doubt.FEW
    if any(each.has_word for each in possible) and not _has_word_elsewhere(value, rule.field, record):
        return Doubt.UNCONFIRMED
    support, confidence, said = profile.present, PLAIN_READING, "it can be read as one number only"
    if len({each.value for each in possible}) > 1:
        marks = _voted(knowledge, rule, record, {f"mark:{each.mark}" for each in possible if each.mark})
        if isinstance(marks, Doubt):
            return marks
        mark, support, confidence = marks
        possible = _by_mark(possible, mark.removeprefix("mark:"))
        said = f"{support} failing records like it have decimals after {mark.removeprefix('mark:')!r}"
    new = _written(possible[0].value, layout, profile)
    if new is None or new == value:
        return Doubt.NO_RULE
    return Proposal(rule, new, support, tracked(confidence, rule), said)


def _by_mark(possible: Sequence[Amount], mark: str) -> list[Amount]:
    return [each for each in possible if each.mark == mark] or [each for each in possible if not each.mark]


def _fits(profile: Profile, amount: Amount, layout: str) -> bool:
    """Whether numbers of that size and sign, and with so many decimals, were taken."""
    decimals, scales = profile.usual(Aspect.DECIMALS), profile.usual(Aspect.SCALE)
    if layout != PLAIN:
        decimals = [int(layout.removeprefix("text:"))] if layout.startswith("text:") else []
    if not decimals or not scales or amount.decimals > max(decimals):
        return False
    is_usual = (-1 if amount.value < 0 else 1) in profile.usual(Aspect.SIGN)
    return is_usual and min(scales) <= int(scale_of(amount.value)) <= max(scales)


def _has_word_elsewhere(text: str, field: str, record: RecordFields) -> bool:
    """Whether the currency or unit that would be dropped stands in another field."""
    word = "".join(each for each in text if each.isalpha() or each in _SIGNS)
    wanted = _SIGNS.get(word, word).casefold()
    others = (value for name, value in record.flat.items() if name != field and isinstance(value, str))
    return any(value.strip().casefold() in (wanted, word.casefold()) for value in others)


def _written(value: Decimal, layout: str, profile: Profile) -> Scalar:
    if layout.startswith("text:"):
        return f"{value:.{int(layout.removeprefix('text:'))}f}"
    if layout != PLAIN:
        return None
    is_whole = profile.type_share("integer") >= ALIKE
    if is_whole:
        return int(value) if value == value.to_integral_value() else None
    return int(value) if value == value.to_integral_value() and not value.as_tuple().exponent else float(value)


def _voted(
    knowledge: Knowledge, rule: CorrectionRule, record: RecordFields, possible: set[str]
) -> tuple[str, int, float] | Doubt:
    """Which of the possible readings failing records speak for that leave no doubt: those with the same deciding value,
    or all of them where no field decides it."""
    votes: list[Counter[str]] = []
    for decider in rule.deciders:
        value = record.flat.get(decider)
        given = (
            None if is_nothing(value) or decider in record.suspects else given_by({decider: token(value)}, (decider,))
        )
        if given is not None:
            votes.append(knowledge.orders(rule.field, decider, given))
    clear = [found for each in votes if (found := _clear(each, possible, rule))]
    if len({order for order, _, _ in clear}) > 1:
        return Doubt.CONFLICT
    if clear:
        return max(clear, key=lambda each: (each[2], each[1]))
    return _clear(knowledge.orders(rule.field), possible, rule) or Doubt.AMBIGUOUS


def _clear(counts: Counter[str], possible: set[str], rule: CorrectionRule) -> tuple[str, int, float] | None:
    """The reading that nearly all of them have, how many, and how sure it is."""
    kept = Counter({order: count for order, count in counts.items() if order in possible})
    if not kept:
        return None
    order, count = kept.most_common(1)[0]
    confidence = shrunk(count, kept.total(), ORDER_QUALITY)
    return (order, count, confidence) if count >= rule.support and count >= ALIKE * kept.total() else None


def respelt(knowledge: Knowledge, rule: CorrectionRule, value: Scalar) -> Proposal | Doubt:
    """The one known value that is nearest, if no other comes near it."""
    profile = knowledge.profile(rule.field)
    if not isinstance(value, str) or is_known(profile, value, rule.support):
        return Doubt.NO_RULE
    near = near_values(knowledge, rule, value)
    if not near or near[0].slips > allowed_slips(near[0].value):
        return Doubt.FEW
    best, *others = near
    if any(other.slips == best.slips for other in others):
        return Doubt.AMBIGUOUS
    weights = [_weight(profile, each) for each in near]
    support = profile.values[token(best.value) or ""]
    confidence = tracked(weights[0] / sum(weights), rule)
    said = f"{support} records have {best.value!r}, {best.slips} slips away" if best.slips else f"it is {best.value!r}"
    return Proposal(rule, best.value, support, confidence, said)


def near_values(knowledge: Knowledge, rule: CorrectionRule, text: str) -> list[NearValue]:
    """The known values that a text may have been meant to be, the nearest first."""
    profile = knowledge.profile(rule.field)
    least = max(rule.support, KNOWN * profile.values.total())
    known = (value_of(each) for each, count in profile.values.items() if count >= least)
    return nearest(text, (value for value in known if isinstance(value, str) and value != text))


def is_known(profile: Profile, value: Scalar, support: int) -> bool:
    """Whether a value was seen often enough not to be a slip itself."""
    return profile.values[token(value) or ""] >= max(support, KNOWN * profile.values.total())


def _weight(profile: Profile, near: NearValue) -> float:
    """How likely it is that this one was meant."""
    return float(profile.values[token(near.value) or ""] * SLIP_CHANCE**near.slips)
