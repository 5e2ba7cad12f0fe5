"""Which fields of a bad record may be at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from towpath.desk.corrections.amounts import decimal_of
from towpath.desk.corrections.count import Aspect
from towpath.desk.corrections.dates import readings
from towpath.desk.corrections.fields import Flat, Scalar, is_nothing, token, type_of
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.profile import Profile
from towpath.desk.corrections.respelling import is_known
from towpath.desk.corrections.rule import RuleKind
from towpath.desk.corrections.tally import PLAIN

USUAL = 0.98  # share of the taken records that are otherwise
CLOSED = 0.02  # chance of a new value below which a list of values counts as complete
LEAST_RECORDS = 50


class Fault(StrEnum):
    """What is wrong with a field."""

    MISSING = "missing"
    TYPE = "another type than usual"
    LAYOUT = "another layout than usual"
    UNKNOWN = "not one of the known values"
    NAMED = "the failure names it"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A field, what stands in it and what is wrong with it."""

    field: str
    value: Scalar
    fault: Fault
    is_named: bool  # by the failure


def suspects(knowledge: Knowledge, flat: Flat, message: str) -> list[Suspect]:
    """The fields that may be at fault: those that the failure names, or all that look unusual if it names none."""
    odd = {name: fault for name in knowledge.fields if (fault := _fault(knowledge, name, flat)) is not None}
    named = {name: odd.get(name, Fault.NAMED) for name in _named(knowledge, message)}
    return [Suspect(name, flat.get(name), fault, bool(named)) for name, fault in sorted((named or odd).items())]


def _named(knowledge: Knowledge, message: str) -> Iterator[str]:
    """Fields by whose name a failure is: `field city: expected …`, or one in quotes."""
    found = set(re.findall(r"\bfield ['\"`]?([\w.\-]+)", message)) | set(re.findall(r"['\"`]([\w.\-]+)['\"`]", message))
    return (name for name in knowledge.fields if name in found)


def _fault(knowledge: Knowledge, name: str, flat: Flat) -> Fault | None:
    profile, value = knowledge.profile(name), flat.get(name)
    if profile.records < LEAST_RECORDS:
        return None
    if is_nothing(value):
        is_value = value is not None and profile.values[token(value) or ""] > 0
        return Fault.MISSING if profile.present_share >= USUAL and not is_value else None
    if _has_odd_layout(profile, value):
        return Fault.LAYOUT
    if _has_odd_type(profile, value):
        return Fault.TYPE
    return Fault.UNKNOWN if _is_unknown(knowledge, profile, value) else None


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
