"""Counts records: those that a flow accepted, those that failed, and those that operators corrected. Pure.

`Profile` is what these counts say about one field.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as field_of
from decimal import Decimal
from functools import cached_property

import orjson

from towpath.desk.corrections.formats import DateLayout, amounts, decimal_of, is_plain, readings
from towpath.desk.corrections.model import (
    NO_DECIDER,
    Aspect,
    CorrectionRule,
    Count,
    Counts,
    Flat,
    RuleKind,
    Scalar,
    fields_of,
    is_nothing,
    token,
    type_of,
)

MISSING = "missing"
PLAIN = "plain"
OTHER = "other"

SELDOM = 0.001  # share below which a thing may be dirt


@dataclass(frozen=True, slots=True)
class TallyScope:
    """What is counted for a flow: no more than its rules can use."""

    values: tuple[str, ...] = ()  # fields of which each value is counted
    decided: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dates: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    orders_by: tuple[str, ...] = ()  # fields that may decide how others write dates and numbers

    @classmethod
    def of(cls, rules: Sequence[CorrectionRule]) -> TallyScope:
        """Decided fields and those with known values are counted; so are the fields that decide formats."""
        values = {each.field for each in rules if each.kind in (RuleKind.SLIP, RuleKind.DECIDED)}
        values |= {decider for each in rules for decider in each.deciders}
        formats = [each for each in rules if each.kind in (RuleKind.DATE, RuleKind.NUMBER)]
        return cls(
            tuple(sorted(values)),
            tuple(sorted({(each.field, each.deciders) for each in rules if each.kind is RuleKind.DECIDED})),
            tuple(sorted(each.field for each in formats if each.kind is RuleKind.DATE)),
            tuple(sorted(each.field for each in formats if each.kind is RuleKind.NUMBER)),
            tuple(sorted({decider for each in formats for decider in each.deciders})),
        )


class _Tally(ABC):
    """Counts records. Goes to Spark's workers as it is."""

    def __init__(self, wanted: TallyScope) -> None:
        self._wanted = wanted

    def __call__(self, bodies: Iterable[bytes | None]) -> Counts:
        """The counts of all bodies that can be read; the others say nothing about fields."""
        counts = Counts()
        for flat in map(fields_of, bodies):
            if flat is not None:
                self.add(flat, counts)
        return counts

    @abstractmethod
    def add(self, flat: Flat, counts: Counts) -> None:
        """One more record."""


class AcceptedTally(_Tally):
    """Counts records that a flow has taken."""

    def add(self, flat: Flat, counts: Counts) -> None:
        counts[Count("", Aspect.RECORDS)] += 1
        for field, value in flat.items():
            counts[Count(field, Aspect.TYPE, value=MISSING if is_nothing(value) else type_of(value))] += 1
        tokens = _tokens(flat)
        for field in self._wanted.values:
            if (found := tokens.get(field)) is not None:
                counts[Count(field, Aspect.VALUE, value=found)] += 1
        self.add_decided(flat, counts)
        for field in self._wanted.dates:
            _add_date(field, flat.get(field), counts)
        for field in self._wanted.numbers:
            _add_number(field, flat.get(field), counts)

    def add_decided(self, flat: Flat, counts: Counts) -> None:
        """Of one more record only which value came with which deciding ones."""
        tokens = _tokens(flat)
        for field, deciders in self._wanted.decided:
            if (found := tokens.get(field)) is not None and (given := given_by(tokens, deciders)) is not None:
                counts[Count(field, Aspect.DECIDED, ",".join(deciders), given, found)] += 1


class FailedTally(_Tally):
    """Counts in records that have failed how they write dates and numbers, where that leaves no doubt."""

    def add(self, flat: Flat, counts: Counts) -> None:
        for field in (*self._wanted.dates, *self._wanted.numbers):
            value = flat.get(field)
            found = order_shown(value) if field in self._wanted.dates else mark_shown(value)
            if found is None:
                continue
            counts[Count(field, Aspect.ORDER, value=found)] += 1
            for decider in self._wanted.orders_by:
                if decider != field and (given := given_by(_tokens(flat), (decider,))) is not None:
                    counts[Count(field, Aspect.ORDER, decider, given, found)] += 1


def meant(flat: Flat, field: str, before: Scalar) -> Count | None:
    """The count of an operator's edit: what was put where a value stood. `flat` is the record after it."""
    old, new = token(before), token(flat.get(field))
    if is_nothing(before) or old is None or new is None or is_nothing(flat.get(field)) or old == new:
        return None
    return Count(field, Aspect.MEANT, field, orjson.dumps([before]).decode(), new)


def given_by(tokens: dict[str, str | None], deciders: Sequence[str]) -> str | None:
    """What the deciding fields have, as one text; None if one of them has nothing."""
    found = [tokens.get(decider) for decider in deciders]
    if any(each is None for each in found):
        return None
    return f"[{','.join(map(str, found))}]" if deciders else NO_DECIDER


@dataclass(frozen=True)
class Profile:
    """Counts of one field. `records` is how many were looked at, with or without it."""

    name: str
    records: int
    aspects: dict[str, Counter[str]] = field_of(default_factory=dict)

    def of(self, aspect: Aspect) -> Counter[str]:
        return self.aspects.get(aspect, Counter())

    @cached_property
    def present(self) -> int:
        types = self.of(Aspect.TYPE)
        return types.total() - types["null"] - types[MISSING]

    @property
    def present_share(self) -> float:
        return self.present / self.records if self.records else 0.0

    def type_share(self, type: str) -> float:
        """How much of what is there is of this type; an integer is a number too."""
        types = self.of(Aspect.TYPE)
        count = types[type] + (types["integer"] if type == "number" else 0)
        return count / self.present if self.present else 0.0

    @cached_property
    def values(self) -> Counter[str]:
        """By token."""
        return self.of(Aspect.VALUE)

    @cached_property
    def unseen(self) -> float:
        """The chance that the next value is a new one, as Good and Turing put it; 1 where values are not counted."""
        total = self.values.total()
        return sum(count == 1 for count in self.values.values()) / total if total else 1.0

    @cached_property
    def date_layout(self) -> tuple[DateLayout, float] | None:
        """The layout in which most texts can be read, and how many."""
        texts = self.of(Aspect.TYPE)["string"]
        found = [(count, text) for text, count in self.of(Aspect.LAYOUT).items() if text.startswith("date|")]
        if not found or not texts:
            return None
        count, text = max(found)
        return DateLayout.of_text(text), count / texts

    @cached_property
    def number_layout(self) -> tuple[str, float] | None:
        """`plain` or `text:2`, and how many are so."""
        found = self.of(Aspect.LAYOUT)
        if not found:
            return None
        layout, count = found.most_common(1)[0]
        return layout, count / found.total()

    @property
    def is_padded(self) -> bool:
        widths = self.of(Aspect.WIDTH)
        return widths["padded"] >= widths["bare"]

    def usual(self, aspect: Aspect) -> list[int]:
        """The numbers of an aspect, without those that are so seldom that they may be dirt."""
        counts = self.of(aspect)
        least = SELDOM * counts.total()
        return [int(value) for value, count in counts.items() if count > least]


def profiles_of(counts: Counts) -> dict[str, Profile]:
    """The fields by name."""
    records = counts[Count("", Aspect.RECORDS)]
    found: dict[str, Profile] = {}
    for (name, aspect, deciders, _, value), count in counts.items():
        if name and not deciders and aspect != Aspect.DECIDED:
            aspects = found.setdefault(name, Profile(name, records)).aspects
            aspects.setdefault(aspect, Counter())[value] += count
    return found


def order_shown(value: Scalar) -> str | None:
    """In which order a text that is a date has day and month, if only one is possible."""
    if not isinstance(value, str):
        return None
    found = {(each.layout.family, each.layout.order) for each in readings(value)}
    if len(found) != 1:
        return None
    family, order = found.pop()
    return f"{family}:{order}"


def mark_shown(value: Scalar) -> str | None:
    """What stands before the decimals of a text that is a number, if only one reading is possible."""
    if not isinstance(value, str):
        return None
    found = amounts(value)
    return f"mark:{found[0].mark}" if len(found) == 1 and found[0].mark else None


def scale_of(value: Decimal) -> str:
    """The power of ten of a number."""
    return str(value.adjusted()) if value else "0"


def _add_date(field: str, value: Scalar, counts: Counts) -> None:
    if not isinstance(value, str) or is_nothing(value):
        return
    found = readings(value)
    for layout in {each.layout.text for each in found} or {OTHER}:
        counts[Count(field, Aspect.LAYOUT, value=layout)] += 1
    if found:
        counts[Count(field, Aspect.YEAR, value=str(found[0].day.year))] += 1
        if found[0].width is not None:
            counts[Count(field, Aspect.WIDTH, value=found[0].width)] += 1


def _add_number(field: str, value: Scalar, counts: Counts) -> None:
    if value is None or is_nothing(value):
        return
    number = decimal_of(value)
    counts[Count(field, Aspect.LAYOUT, value=_number_layout(value))] += 1
    if number is not None:
        exponent = number.normalize().as_tuple().exponent
        counts[Count(field, Aspect.DECIMALS, value=str(max(0, -int(exponent))))] += 1
        counts[Count(field, Aspect.SCALE, value=scale_of(number))] += 1
        counts[Count(field, Aspect.SIGN, value="-1" if number < 0 else "1")] += 1


def _number_layout(value: Scalar) -> str:
    if isinstance(value, str):
        return f"text:{len(value.rpartition('.')[2]) if '.' in value else 0}" if is_plain(value) else OTHER
    return PLAIN


def _tokens(flat: Flat) -> dict[str, str | None]:
    return {field: token(value) for field, value in flat.items() if not is_nothing(value)}
