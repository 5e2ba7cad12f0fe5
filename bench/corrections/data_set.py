"""Generated records with their truth: those that a flow takes, and those that fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any, ClassVar

from bench.corrections.damage import NOTHINGS, shown, slipped, slips, written

Document = dict[str, Any]
ENOUGH = 5  # taken records with the same deciding value, below which nobody could know what it decides
DIRT = 0.01  # of the taken records that have a slip or a wrong deciding value all the same
NAMED = 0.5  # of the failures whose message names the field
TWICE = 0.1  # of the failing records that have two faults


@dataclass(frozen=True)
class Failing:
    """A record that has failed, what is wrong with it, and what of that can be known."""

    body: Document
    truth: Document
    message: str
    wrong: frozenset[str]
    correctable: frozenset[str]


class DataSet(ABC):
    """A model of records. Subclasses say what they look like; the damage is the same for all."""

    name: ClassVar[str]
    seed: ClassVar[int]
    decided: ClassVar[Mapping[str, str]] = {}  # field → the field that decides it in the model
    listed: ClassVar[Sequence[str]] = ()  # fields with a list of values
    open: ClassVar[Sequence[str]] = ()  # fields that nothing decides
    dates: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # field → how each sender writes it, by the field `by`
    numbers: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    by: ClassVar[str] = ""  # the field that says who has sent it

    def __init__(self) -> None:
        rng = Random(self.seed)  # noqa: S311 - the same data on every run
        self.prepare(rng)
        self.taken = [self._taken(rng) for _ in range(20_000)]
        self._seen = {name: Counter(str(each.get(name)) for each in self.taken) for name in self._fields()}
        self.before = [self._failing(rng) for _ in range(2_000)]  # seen while learning
        self.failing = [self._failing(rng) for _ in range(4_000)]

    @abstractmethod
    def prepare(self, rng: Random) -> None:
        """Make the lists that records are made of."""

    @abstractmethod
    def record(self, rng: Random) -> Document:
        """A record as it should be."""

    def is_decided(self, truth: Document, field: str) -> bool:
        """Whether the deciding field of this record leaves one value only."""
        return True

    def fresh(self, rng: Random, field: str) -> str:
        """A good value of a list that was never seen before."""
        return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(4)).title()

    def _fields(self) -> set[str]:
        return {*self.decided, *self.decided.values(), *self.listed, *([self.by] if self.by else [])}

    def _taken(self, rng: Random) -> Document:
        record = self.record(rng)
        if rng.random() >= DIRT:
            return record
        if self.listed and rng.random() < 0.5:
            field = rng.choice(list(self.listed))
            return {**record, field: slipped(rng, record[field])}
        return self._with_wrong_decider(rng, record, rng.choice(list(self.decided)))

    def _with_wrong_decider(self, rng: Random, record: Document, field: str) -> Document:
        decider = self.decided[field]
        return {**record, decider: self.record(rng)[decider]}

    def _failing(self, rng: Random) -> Failing:
        truth = self.record(rng)
        body, wrong, correctable, messages = dict(truth), set[str](), set[str](), []
        kinds = self._kinds()
        for _ in range(2 if rng.random() < TWICE else 1):
            [kind] = rng.choices(list(kinds), [weight for weight, _ in kinds.values()])
            field, can_be, words = kinds[kind][1](rng, truth, body)
            if field is None or field in wrong:
                messages.append(words)
                continue
            wrong.add(field)
            correctable |= {field} if can_be else set()
            messages.append(f"field {field}: {words}" if rng.random() < NAMED else "not met: a rule of the step")
        wrong = {field for field in wrong if body.get(field) != truth[field]}
        correctable = {field for field in correctable & wrong if self.decided.get(field) not in wrong}
        # A flow tells the first thing that is wrong.
        return Failing(body, truth, messages[0], frozenset(wrong), frozenset(correctable))

    def _kinds(self) -> dict[str, tuple[float, Callable[..., tuple[str | None, bool, str]]]]:
        return {
            "missing": (30 if self.decided else 0, self._missing),
            "dirty": (0.6 if self.decided else 0, self._dirty),
            "open": (6 if self.open else 0, self._open),
            "slip": (25 if self.listed else 0, self._slip),
            "other": (4 if self.listed else 0, self._other),
            "new": (3 if self.listed else 0, self._new),
            "date": (20 if self.dates else 0, self._date),
            "number": (20 if self.numbers else 0, self._number),
            "unrelated": (5, self._unrelated),
        }

    def _missing(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        field = rng.choice(list(self.decided))
        value = rng.choice(NOTHINGS)
        if value is None and rng.random() < 0.5:
            body.pop(field, None)
        else:
            body[field] = value
        decider = self.decided[field]
        is_known = self._seen[decider][str(truth[decider])] >= ENOUGH and self.is_decided(truth, field)
        return field, is_known, "expected string, found null"

    def _dirty(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        field = rng.choice(list(self.decided))
        body |= self._with_wrong_decider(rng, body, field)
        body[field] = None
        return field, False, "expected string, found null"

    def _open(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        field = rng.choice(list(self.open))
        body[field] = None
        return field, False, "expected string, found null"

    def _slip(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        field = rng.choice(list(self.listed))
        text = body[field] = slipped(rng, truth[field])
        if text == truth[field]:
            return None, False, "not met: another rule"
        counts = self._seen[field]
        distance = slips(text, truth[field])
        others = [each for each, count in counts.items() if count >= ENOUGH and each != truth[field]]
        is_one = counts[truth[field]] >= ENOUGH and all(slips(text, each) > distance for each in others)
        return field, is_one and text not in others, f'"{text}" is not one of the values'

    def _other(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        """Another good value in its place: nobody can say which field is wrong."""
        field = rng.choice(list(self.listed))
        body[field] = self.record(rng)[field]
        return (field if body[field] != truth[field] else None), False, "the record does not fit together"

    def _new(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        """A good value that is new. It fails for another reason."""
        field = rng.choice(list(self.listed))
        truth[field] = body[field] = self.fresh(rng, field)
        return None, False, "not met: another rule"

    def _date(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        field = rng.choice(list(self.dates))
        style = self.dates[field].get(truth.get(self.by, ""), "dmy.")
        day = date.fromisoformat(truth[field][:10])
        body[field] = written(day, style) + truth[field][10:]
        is_plain = day.day > 12 or day.day == day.month or style in ("tight", "named", "ymd/")
        return field, is_plain or bool(self.by), f'expected date, found string "{body[field]}"'

    def _number(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        field = rng.choice(list(self.numbers))
        body[field] = shown(float(truth[field]), self.numbers[field].get(truth.get(self.by, ""), "comma"))
        return field, True, f'expected double, found string "{body[field]}"'

    def _unrelated(self, rng: Random, truth: Document, body: Document) -> tuple[str | None, bool, str]:
        return None, False, "not met: another rule"
