"""The same day or number in the way in which the field has it. Only rewrites that leave no doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from towpath.desk.corrections.amounts import Amount, amounts
from towpath.desk.corrections.count import Aspect
from towpath.desk.corrections.dates import Reading, readings
from towpath.desk.corrections.deciding import Record
from towpath.desk.corrections.fields import Scalar, is_nothing, token
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.profile import Profile
from towpath.desk.corrections.proposal import Doubt, Proposal, shrunk, tracked
from towpath.desk.corrections.rule import Rule
from towpath.desk.corrections.tally import PLAIN, given_by, scale_of

PLAIN_READING = 0.999  # confidence in a text that can be read in one way only
ORDER_QUALITY = 0.99
ALIKE = 0.95  # share of the taken records that have the layout

_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}


def redated(knowledge: Knowledge, rule: Rule, record: Record) -> Proposal | Doubt:
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


def _is_in_time(profile: Profile, reading: Reading) -> bool:
    """Whether records of that year, or one next to it, were taken."""
    years = profile.usual(Aspect.YEAR)
    return bool(years) and min(years) - 1 <= reading.day.year <= max(years) + 1


def refigured(knowledge: Knowledge, rule: Rule, record: Record) -> Proposal | Doubt:
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


def _has_word_elsewhere(text: str, field: str, record: Record) -> bool:
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


def _voted(knowledge: Knowledge, rule: Rule, record: Record, possible: set[str]) -> tuple[str, int, float] | Doubt:
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


def _clear(counts: Counter[str], possible: set[str], rule: Rule) -> tuple[str, int, float] | None:
    """The reading that nearly all of them have, how many, and how sure it is."""
    kept = Counter({order: count for order, count in counts.items() if order in possible})
    if not kept:
        return None
    order, count = kept.most_common(1)[0]
    confidence = shrunk(count, kept.total(), ORDER_QUALITY)
    return (order, count, confidence) if count >= rule.support and count >= ALIKE * kept.total() else None
