"""Finding rules in a sample of records that a flow has taken: which fields decide others, and what fields look like."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from towpath.desk.corrections.amounts import is_plain
from towpath.desk.corrections.dates import readings
from towpath.desk.corrections.fields import Flat, Scalar, is_nothing, token
from towpath.desk.corrections.rule import Rule, RuleKind

LEAST_RECORDS = 50
PRESENT = 0.5  # share of the records that have the field
ALIKE = 0.95  # share of the values that have one layout
DECIDES = 0.95  # share of the records for which the deciding fields give the right value
GAIN = 0.8  # of what the most frequent value gets wrong, so much the deciding fields get right
TWO_GAIN = 0.01  # by which two fields must do better than one
SEEN_AGAIN = 3  # records with the same deciding values, before they say anything
REPEATED = 0.5  # share of the records whose deciding values were seen again
CONSTANT = 0.995
UNSEEN = 0.02  # share of values seen once only, above which a field is no list of known values
MOST_RULES = 4  # that decide one field
MOST_PAIRED = 6  # fields that are tried in pairs
FORMAT_VALUES = 50  # that a field may have which decides how others write dates
MOST_FORMAT_DECIDERS = 4


def discover(flow: str, sample: Sequence[Flat]) -> list[Rule]:
    """The rules that a sample speaks for; none if it is too small to say anything."""
    if len(sample) < LEAST_RECORDS:
        return []
    columns = {name: column for name, column in _columns(sample).items() if column.is_there}
    by = _format_deciders(columns)
    rules = []
    for column in columns.values():
        if column.is_date:
            rules.append(Rule(flow, column.name, RuleKind.DATE, _without(by, column.name)))
        elif column.is_number:
            rules.append(Rule(flow, column.name, RuleKind.NUMBER, _without(by, column.name)))
        elif column.is_list:
            rules.append(Rule(flow, column.name, RuleKind.SLIP))
        rules += [Rule(flow, column.name, RuleKind.DECIDED, by) for by in _deciders(column, columns)]
    return rules


@dataclass(frozen=True)
class _Column:
    """What a sample has in one field; None where it has nothing."""

    name: str
    values: list[Scalar]
    tokens: list[str | None]
    counts: Counter[str]

    @property
    def present(self) -> int:
        return self.counts.total()

    @property
    def is_there(self) -> bool:
        return self.present >= max(LEAST_RECORDS, PRESENT * len(self.values))

    @property
    def is_date(self) -> bool:
        found: Counter[str] = Counter()
        for value in self.values:
            if isinstance(value, str):
                found.update({each.layout.text for each in readings(value)})
        return bool(found) and max(found.values()) >= ALIKE * self.present

    @property
    def is_number(self) -> bool:
        """Texts count only with decimals: a text of digits is a postcode or the like."""
        values = [value for value in self.values if value is not None and not isinstance(value, bool)]
        numbers = sum(isinstance(value, int | float) for value in values)
        texts = sum(isinstance(value, str) and "." in value and is_plain(value) for value in values)
        return max(numbers, texts) >= ALIKE * self.present

    @property
    def is_list(self) -> bool:
        """Whether nearly all values were seen before, and are words."""
        words = sum(isinstance(value, str) and any(map(str.isalpha, value)) for value in self.values)
        return words >= ALIKE * self.present and len(self.counts) > 1 and self.unseen <= UNSEEN

    @property
    def unseen(self) -> float:
        """The chance that the next value is a new one, as Good and Turing put it."""
        return sum(count == 1 for count in self.counts.values()) / self.present

    @property
    def top_share(self) -> float:
        return max(self.counts.values()) / self.present

    @property
    def can_decide(self) -> bool:
        """Days decide nothing: what comes on one day has little to do with each other."""
        if self.is_date:
            return False
        repeated = sum(count for count in self.counts.values() if count >= SEEN_AGAIN)
        return len(self.counts) > 1 and repeated >= REPEATED * self.present and not self._is_fraction

    @property
    def can_be_decided(self) -> bool:
        return not self.is_date and not self._is_fraction and len(self.counts) <= REPEATED * self.present

    @property
    def _is_fraction(self) -> bool:
        return any(isinstance(value, float) for value in self.values)


def _columns(sample: Sequence[Flat]) -> dict[str, _Column]:
    names = dict.fromkeys(name for flat in sample for name in flat)
    return {name: _column(name, [flat.get(name) for flat in sample]) for name in names}


def _column(name: str, values: list[Scalar]) -> _Column:
    kept = [None if is_nothing(value) else value for value in values]
    tokens = [None if value is None else token(value) for value in kept]
    return _Column(name, kept, tokens, Counter(each for each in tokens if each is not None))


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


def _format_deciders(columns: dict[str, _Column]) -> tuple[str, ...]:
    """Fields such as a sender or a country: few values, seen often."""
    found = [column for column in columns.values() if column.can_decide and len(column.counts) <= FORMAT_VALUES]
    found.sort(key=lambda column: (len(column.counts), column.name))
    return tuple(sorted(column.name for column in found[:MOST_FORMAT_DECIDERS]))


def _deciders(column: _Column, columns: dict[str, _Column]) -> Iterator[tuple[str, ...]]:
    if not column.can_be_decided:
        return
    if column.top_share >= CONSTANT:
        yield ()
        return
    able = [other for other in columns.values() if other.name != column.name and other.can_decide]
    quality = {(other.name,): _quality(column, [other]) for other in able}
    ranked = sorted(quality, key=lambda by: (-quality[by], by))
    good = [by for by in ranked if _is_gain(column, quality[by])]
    yield from good[:MOST_RULES]
    if not good or quality[good[0]] < CONSTANT:
        best = quality[ranked[0]] if ranked else 0.0
        yield from _pairs(column, [columns[name] for (name,) in ranked[:MOST_PAIRED]], best)


def _pairs(column: _Column, able: Sequence[_Column], best: float) -> list[tuple[str, ...]]:
    quality = {
        tuple(sorted((one.name, other.name))): _quality(column, sorted((one, other), key=lambda each: each.name))
        for one, other in combinations(able, 2)
    }
    good = [by for by, each in quality.items() if each >= best + TWO_GAIN and _is_gain(column, each)]
    return sorted(good, key=lambda by: (-quality[by], by))[:1]


def _is_gain(column: _Column, quality: float) -> bool:
    return quality >= DECIDES and quality - column.top_share >= GAIN * (1 - column.top_share)


def _quality(column: _Column, by: Sequence[_Column]) -> float:
    """The share of records for which the most frequent value of their deciding values is the right one."""
    groups: dict[tuple[str | None, ...], Counter[str]] = defaultdict(Counter)
    for row, value in enumerate(column.tokens):
        given = tuple(each.tokens[row] for each in by)
        if value is not None and None not in given:
            groups[given][value] += 1
    seen = [group for group in groups.values() if group.total() >= SEEN_AGAIN]
    total = sum(group.total() for group in seen)
    if total < REPEATED * column.present:
        return 0.0
    return sum(max(group.values()) for group in seen) / total
