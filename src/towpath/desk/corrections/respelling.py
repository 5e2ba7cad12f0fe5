"""Values of a known list that were written with a slip."""

from __future__ import annotations

from towpath.desk.corrections.fields import Scalar, token, value_of
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.profile import Profile
from towpath.desk.corrections.proposal import Doubt, Proposal, tracked
from towpath.desk.corrections.rule import Rule
from towpath.desk.corrections.slips import Near, allowed_slips, nearest

SLIP_CHANCE = 0.01  # of one more slip in the same word
KNOWN = 0.0005  # share of the records from which a value counts as known


def is_known(profile: Profile, value: Scalar, support: int) -> bool:
    """Whether a value was seen often enough not to be a slip itself."""
    return profile.values[token(value) or ""] >= max(support, KNOWN * profile.values.total())


def near_values(knowledge: Knowledge, rule: Rule, text: str) -> list[Near]:
    """The known values that a text may have been meant to be, the nearest first."""
    profile = knowledge.profile(rule.field)
    least = max(rule.support, KNOWN * profile.values.total())
    known = (value_of(each) for each, count in profile.values.items() if count >= least)
    return nearest(text, (value for value in known if isinstance(value, str) and value != text))


def respelt(knowledge: Knowledge, rule: Rule, value: Scalar) -> Proposal | Doubt:
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


def _weight(profile: Profile, near: Near) -> float:
    """How likely it is that this one was meant."""
    return float(profile.values[token(near.value) or ""] * SLIP_CHANCE**near.slips)
