"""What is known about one field from records that a flow has taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from towpath.desk.corrections.count import Aspect, Count, Counts
from towpath.desk.corrections.dates import Layout
from towpath.desk.corrections.tally import MISSING

SELDOM = 0.001  # share below which a thing may be dirt


@dataclass(frozen=True)
class Profile:
    """Counts of one field. `records` is how many were looked at, with or without it."""

    name: str
    records: int
    aspects: dict[str, Counter[str]] = field(default_factory=dict)

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
    def date_layout(self) -> tuple[Layout, float] | None:
        """The layout in which most texts can be read, and how many."""
        texts = self.of(Aspect.TYPE)["string"]
        found = [(count, text) for text, count in self.of(Aspect.LAYOUT).items() if text.startswith("date|")]
        if not found or not texts:
            return None
        count, text = max(found)
        return Layout.of_text(text), count / texts

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
