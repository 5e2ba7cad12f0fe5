"""Rules, proposals, counts, and the fields of a record. Pure.

A rule says which field may be corrected, by what, and how sure that has to be; docs/reference/correction-states.md is
held equal to its states and moves. Everything that is learned is a `Count`, so that pieces can be added up. Fields of
a record are known by their paths, and their values as tokens that can be counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from towpath.flow.documents.splice import members, splice

SUPPORT = 5  # records that say the same
CONFIDENCE = 0.99

PRIOR = 4.0  # records that the rule's own quality counts for
TRACK_PRIOR = 20.0  # corrections that are taken to have been right before there were any

DEPTH = 3  # objects within objects that are looked into
FIELDS = 60  # of a record; what comes after these is not looked at
TOKEN_BYTES = 200
NAME_CHARACTERS = 100
Scalar = str | int | float | bool | None
Flat = dict[str, Scalar]  # by path, such as `address.city`
# What people and programs write where they have nothing to write.
_NOTHING = frozenset({"", "-", "--", "?", "n/a", "na", "nan", "nil", "none", "null", "tbd", "unknown", "undefined"})

NO_DECIDER = ""


class RuleState(StrEnum):
    """Whether a rule may change records by itself."""

    SUGGESTED = "suggested"  # found; it only suggests
    ON = "on"  # a person lets it change records by itself, above its thresholds
    OFF = "off"  # it does not even suggest: by a person, or because what it did was wrong too often
    REVERTED = "reverted"  # a person does not believe it any more, and has the list of all that it has touched


_S = RuleState
MOVES: Mapping[RuleState, frozenset[RuleState]] = {
    _S.SUGGESTED: frozenset({_S.ON, _S.OFF}),
    _S.ON: frozenset({_S.OFF, _S.REVERTED}),
    _S.OFF: frozenset({_S.ON, _S.REVERTED}),
    _S.REVERTED: frozenset({_S.ON}),
}


class RuleKind(StrEnum):
    """Where the new value comes from."""

    DECIDED = "decided"  # other fields decide it: postcode → city
    SLIP = "slip"  # the one known value that differs by a typing slip
    DATE = "date"  # the same day in the layout of the field
    NUMBER = "number"  # the same number as the field has it
    MEANT = "meant"  # what operators have put where the same bad value stood


@dataclass(frozen=True, slots=True)
class CorrectionRule:
    """A rule of a flow. `id` 0: it was found and is not stored yet."""

    flow: str
    field: str
    kind: RuleKind
    deciders: tuple[str, ...] = ()
    id: int = 0
    state: RuleState = RuleState.SUGGESTED
    support: int = SUPPORT
    confidence: float = CONFIDENCE
    # How often what it did was right and wrong, by outcomes and by persons.
    right: int = 0
    wrong: int = 0

    @property
    def name(self) -> str:
        """As it is written in histories: `rule:7`."""
        return f"rule:{self.id}"

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """By which it is known within its flow."""
        return self.field, self.kind, self.deciders

    @property
    def can_suggest(self) -> bool:
        return self.state in (RuleState.SUGGESTED, RuleState.ON)

    @property
    def text(self) -> str:
        """What it does, in words."""
        by = ", ".join(self.deciders)
        match self.kind:
            case RuleKind.DECIDED:
                return f"{by} → {self.field}" if by else f"{self.field} is always the same"
            case RuleKind.SLIP:
                return f"typing slips in {self.field}"
            case RuleKind.DATE:
                return f"dates in {self.field}"
            case RuleKind.NUMBER:
                return f"numbers in {self.field}"
            case RuleKind.MEANT:
                return f"what operators put for {self.field}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A new value for a field."""

    rule: CorrectionRule
    value: Scalar
    support: int  # records that say so
    confidence: float
    said: str  # the evidence, for people

    @property
    def is_enough(self) -> bool:
        """Whether it is above the thresholds of its rule."""
        return self.support >= self.rule.support and self.confidence >= self.rule.confidence


class Doubt(StrEnum):
    """Why nothing is corrected."""

    NO_RULE = "no rule says anything about it"
    NOT_ON = "the rule is not turned on"
    FEW = "too few records say so"
    UNSURE = "too many records say otherwise"
    CONFLICT = "two rules say different things"
    CONTRADICTED = "another field of the record speaks against it"
    DIRTY = "the field that decides it is doubtful itself"
    AMBIGUOUS = "it can be read in several ways"
    UNCONFIRMED = "the value is a known one, and nothing confirms that it is wrong"
    NOTHING_WRONG = "no field of it looks wrong"


def shrunk(agreeing: float, total: float, quality: float) -> float:
    """The share that agrees, drawn to the quality of the whole rule where there are few."""
    return (agreeing + PRIOR * quality) / (total + PRIOR)


def tracked(confidence: float, rule: CorrectionRule) -> float:
    """A confidence, reduced by what the rule has done wrong so far."""
    return confidence * (rule.right + TRACK_PRIOR) / (rule.right + rule.wrong + TRACK_PRIOR)


class Aspect(StrEnum):
    """What about a field a count is of."""

    RECORDS = "records"  # that were looked at; of the field with the empty name
    TYPE = "type"  # what it is in JSON, or `missing`
    VALUE = "value"  # which value it has
    LAYOUT = "layout"  # how its text is laid out, if that is a date or a number
    WIDTH = "width"  # whether days and months have a leading zero
    DECIMALS = "decimals"
    SCALE = "scale"  # its power of ten
    SIGN = "sign"  # -1 for what is below zero, 1 for all else
    YEAR = "year"  # of a date
    DECIDED = "decided"  # which value it has, where others have the given ones
    MEANT = "meant"  # which value an operator has put where the given one stood
    ORDER = "order"  # of day and month, or the mark of decimals, in texts that leave no doubt


class Count(NamedTuple):
    """The name of a count. Values are tokens; `given` is what the deciding fields have, as a JSON list."""

    field: str
    aspect: str
    deciders: str = NO_DECIDER  # their paths with a comma between them
    given: str = ""
    value: str = ""


Counts = Counter[Count]


def flattened(document: Mapping[str, Any]) -> Flat:
    """All fields with plain values. Lists are left out, and names that would not be parts of paths."""
    flat: Flat = {}
    _collect(document, "", DEPTH, flat)
    return flat


def fields_of(body: bytes | None) -> Flat | None:
    """The fields of a body; None when there is none, or when it is no JSON object."""
    try:
        document = None if body is None else orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return flattened(document) if isinstance(document, dict) else None


def _collect(document: Mapping[str, Any], before: str, depth: int, flat: Flat) -> None:
    for name, value in document.items():
        if len(flat) >= FIELDS or not _is_part(name):
            continue
        if isinstance(value, Mapping):
            if depth > 1:
                _collect(value, f"{before}{name}.", depth - 1, flat)
        elif value is None or isinstance(value, str | int | float | bool):
            flat[before + name] = value
        elif isinstance(value, Decimal):
            flat[before + name] = float(value)


def _is_part(name: str) -> bool:
    """Whether a name can be a part of a path."""
    return 0 < len(name) <= NAME_CHARACTERS and name.isprintable() and "." not in name and "," not in name


def token(value: Scalar) -> str | None:
    """A value as it is counted: its JSON, so that `1` and `"1"` differ; None for what is too long or cannot be."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    return text.decode() if len(text) <= TOKEN_BYTES else None


def value_of(token: str) -> Scalar:
    """The value that a token stands for."""
    value: Scalar = orjson.loads(token)
    return value


def is_nothing(value: Scalar) -> bool:
    """Whether a field says nothing: it is missing, empty, or says so in words."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def type_of(value: Scalar) -> str:
    """What the value is in JSON; integers are told from other numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def with_values(text: bytes, values: Mapping[str, Scalar]) -> bytes:
    """The text of an object with the values at these paths changed or added."""
    for path, value in values.items():
        text = _with_value(text, path.split("."), value)
    return text


def _with_value(text: bytes, path: list[str], value: Scalar) -> bytes:
    name, *rest = path
    if not rest:
        return splice(text, {name: value})
    # Of a name that stands twice the last is read.
    found = [each for each in members(text) if each[0] == name]
    if not found or text[found[-1][2] : found[-1][2] + 1] != b"{":
        return splice(text, {name: _nested(rest, value)})
    _, _, start, end = found[-1]
    return text[:start] + _with_value(text[start:end], rest, value) + text[end:]


def _nested(path: list[str], value: Scalar) -> object:
    for name in reversed(path):
        value = {name: value}  # type: ignore[assignment]
    return value
