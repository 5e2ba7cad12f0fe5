"""Learns for a flow: from records that it accepted, from those that failed, and from operators' edits.

L1. Judge: what rules changed was loaded, or failed again.
L2. Edits of people with which cases were resolved: their counts and the mark that they were counted, one transaction.
L3. For a range of each topic, from where counting ended to where the flow has committed: find rules in a sample, and
    count on Spark what the rules can use. Nothing is written meanwhile.
L4. In one transaction: the counts, and the position of each partition, guarded by where it was. Of two learners one
    finds no row, and nothing that it counted is kept.

After a crash anywhere between, a successor begins again at L1: what is committed is marked as such, all else is
counted again. `discover` finds rules in a sample: which fields decide others, and what fields look like.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.desk.corrections.formats import is_plain, readings
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.model import (
    CorrectionRule,
    Count,
    Counts,
    Flat,
    RuleKind,
    Scalar,
    fields_of,
    is_nothing,
    token,
)
from towpath.desk.corrections.proposer import FieldFinding, examine
from towpath.desk.corrections.store import EditToLearn, EvidenceStore, RuleStore, TouchedStore
from towpath.desk.corrections.tally import AcceptedTally, FailedTally, TallyScope, meant
from towpath.errors import LogError, UnknownFlow, UnknownTopic
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PORTION = 200  # edits in one transaction
MEANT_SUPPORT = 3  # edits of the same value, before they may be made without asking
MOST_FIELDS = 10  # that differ, above which an edit is another record and not a correction

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

RANGE_OFFSETS = 100_000  # that are counted at once
SAMPLE_RECORDS = 5_000  # in which rules are looked for
MOST_JUDGED = 1_000  # cases, and
MOST_COUNTS = 5_000  # in one transaction, which SQLite is to have done within 250 ms
MOST_EVIDENCE = 1_000_000  # counts of a flow, above which nothing new is learned


class Learner:
    """Learns for one flow at a time. `spark` is asked for a session only when there is something to count."""

    def __init__(
        self,
        database: Database,
        events: Events,
        event_log: EventLog,
        log: Callable[[], Log],
        spark: Callable[[], SparkSession],
    ) -> None:
        self._database = database
        self._events = events
        self._event_log = event_log
        self._log = log
        self._spark = spark
        self._rules = RuleStore(database)
        self._touched = TouchedStore(database)
        self._stages = StageStore(database)

    def learn(self, flow: str, *, error_topic: str | None = None, most_offsets: int = 1_000_000) -> LearnResult:
        """Count what has come since the last time; `most_offsets` bounds how much."""
        self._check_flow(flow)
        right, wrong = self.judge()
        edits, rules = learn_edits(self._database, self._log(), flow)
        errors = FlowTopics.of(flow, error_topic).errors
        counter = TopicCounter(self._database, self._log(), self._spark, flow, errors=errors)
        offsets, more, is_full = counter.run(most_offsets)
        found = LearnResult(offsets, edits, (*rules, *more), right, wrong, is_full)
        self._tell(flow, found)
        return found

    def judge(self) -> tuple[int, int]:
        """L1: how many corrections have turned out to be right, and wrong, since the last time."""
        right = wrong = 0
        while True:
            with self._database.read() as tx:
                ids = self._touched.to_judge(tx, MOST_JUDGED)
            more = self._judge(ids) if ids else (0, 0)
            right, wrong = right + more[0], wrong + more[1]
            if len(ids) < MOST_JUDGED:
                return right, wrong

    def _judge(self, ids: Sequence[str]) -> tuple[int, int]:
        with self._database.transaction() as tx:
            right, wrong = self._touched.judge(tx, ids)
            for id in sorted({*right, *wrong}):
                self._rules.judge(tx, id, right[id], wrong[id])
            crash.here(CrashPoint.JUDGE_BEFORE_COMMIT)
        crash.here(CrashPoint.JUDGE_AFTER_COMMIT)
        return right.total(), wrong.total()

    def _check_flow(self, flow: str) -> None:
        with self._database.read() as tx:
            if not self._stages.list(tx, flow):
                raise UnknownFlow(flow, sorted({stage.flow for stage in self._stages.list(tx)}))

    def _tell(self, flow: str, found: LearnResult) -> None:
        if found.rules:
            texts = {str(rule.id): rule.text for rule in found.rules}
            with self._database.transaction() as tx:
                self._event_log.record(tx, Event(EventKind.RULES_FOUND, flow, data=texts))
        data = {"offsets": found.offsets, "edits": found.edits}
        self._events.publish(Event(EventKind.CORRECTIONS_LEARNED, flow, data=data))


@dataclass(frozen=True, slots=True)
class LearnResult:
    """What one run has learned."""

    offsets: int = 0  # that were gone through
    edits: int = 0
    rules: tuple[CorrectionRule, ...] = ()  # that are new
    right: int = 0  # corrections of which it is known now
    wrong: int = 0
    is_full: bool = False  # there is no room for more counts


class TopicCounter:
    """L3 and L4: goes through the topics of a flow, range by range."""

    def __init__(
        self, database: Database, log: Log, spark: Callable[[], SparkSession], flow: str, *, errors: str
    ) -> None:
        """`errors` is the error topic of the flow."""
        self._database = database
        self._log = log
        self._spark = spark
        self._flow = flow
        self._errors = errors
        self._rules = RuleStore(database)
        self._evidence = EvidenceStore(database)
        self._stages = StageStore(database)
        self._ledger = Ledger(database)
        self._new: list[CorrectionRule] = []
        self._offsets = 0

    def run(self, most: int) -> tuple[int, tuple[CorrectionRule, ...], bool]:
        """How many offsets were gone through, which rules are new, and whether there was no room for more."""
        accepted, failed = self._ranges()
        for is_failed, ranges in ((False, accepted), (True, failed)):
            while ranges and self._offsets < most:
                if not self._has_room():
                    return self._offsets, tuple(self._new), True
                portion = _portion(ranges, min(RANGE_OFFSETS, most - self._offsets))
                self._count(portion, is_failed)
                ranges = _rest(ranges, portion)
        return self._offsets, tuple(self._new), False

    def commit(self, counts: Counts, ranges: Sequence[OffsetRange]) -> None:
        """L4."""
        with self._database.transaction() as tx:
            self._evidence.move(tx, self._flow, ranges)
            self._evidence.add(tx, self._flow, taken=counts)
            crash.here(CrashPoint.LEARN_BEFORE_COMMIT)
        crash.here(CrashPoint.LEARN_AFTER_COMMIT)

    # What is to be counted

    def _ranges(self) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """Of the topics that the flow reads, and of its error topic."""
        with self._database.read() as tx:
            known = self._evidence.positions(tx, self._flow)
            stops = self._committed(tx)
        back = FlowTopics.of(self._flow).reentry
        accepted = [each for each in self._since(known, stops) if each.topic != back]
        try:
            id, ends = self._log.topic(self._errors).id, self._log.ends(self._errors)
        except UnknownTopic:
            return accepted, []
        return accepted, self._since(known, {(self._errors, id, number): end for number, end in ends.items()})

    def _committed(self, tx: Transaction) -> dict[tuple[str, str, int], int]:
        """Up to where every stage that reads a partition has committed."""
        found: dict[tuple[str, str, int], int] = {}
        for stage in self._stages.list(tx, self._flow):
            last = self._ledger.last_committed(tx, self._flow, stage.name, stage.generation)
            for each in last.positions if last is not None else ():
                place = (each.topic, each.topic_id, each.partition)
                found[place] = min(each.stop, found.get(place, each.stop))
        return found

    def _since(self, known: dict[tuple[str, int], int], stops: dict[tuple[str, str, int], int]) -> list[OffsetRange]:
        """From where counting ended up to these stops."""
        found = []
        for (topic, id, number), stop in sorted(stops.items()):
            try:
                if self._log.topic(topic).id != id:
                    continue  # it was made again
            except UnknownTopic:
                continue
            start = known.get((id, number), self._log.starts(topic).get(number, 0))
            if start < stop:
                found.append(OffsetRange(topic, id, number, start, stop))
        return found

    def _kept(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """The part of these ranges that the log still has."""
        starts = {each.topic: self._log.starts(each.topic) for each in ranges}
        cut = [each._replace(start=max(each.start, starts[each.topic].get(each.partition, 0))) for each in ranges]
        return [each for each in cut if each.start < each.stop]

    def _has_room(self) -> bool:
        with self._database.read() as tx:
            return self._evidence.size(tx, self._flow) < MOST_EVIDENCE

    # Counting

    def _count(self, ranges: list[OffsetRange], is_failed: bool) -> None:
        """Count a portion, in smaller pieces where there is too much in it."""
        from towpath.flow.plan.value_counts import TooMany  # loads pyspark

        try:
            counts = self._counted(self._kept(ranges), is_failed)
        except TooMany:
            first = _portion(ranges, max(1, _size(ranges) // 2))
            if first == ranges:
                counts = Counts()  # one record with more counts than can be: it is passed over
            else:
                self._count(first, is_failed)
                self._count(_rest(ranges, first), is_failed)
                return
        self.commit(counts, ranges)
        self._offsets += _size(ranges)

    def _counted(self, ranges: Sequence[OffsetRange], is_failed: bool) -> Counts:
        if not ranges:
            return Counts()
        from towpath.flow.plan.value_counts import ValueCounter  # loads pyspark

        counter = ValueCounter(self._spark(), self._log, self._errors)
        values = counter.failed(ranges) if is_failed else counter.taken(ranges)
        if not is_failed:
            self._discover(counter.some(values, SAMPLE_RECORDS))
        wanted = TallyScope.of(self._known_rules())
        tally = FailedTally(wanted) if is_failed else AcceptedTally(wanted)
        found = counter.count(values, tally, len(Count._fields), MOST_COUNTS)
        return Counts({Count(*name): number for name, number in found.items()})

    def _discover(self, bodies: Sequence[bytes]) -> None:
        rules = discover(self._flow, [flat for flat in map(fields_of, bodies) if flat is not None])
        known = {rule.key for rule in self._known_rules()}
        if new := [rule for rule in rules if rule.key not in known]:
            with self._database.transaction() as tx:
                self._new += self._rules.add(tx, new)

    def _known_rules(self) -> list[CorrectionRule]:
        with self._database.read() as tx:
            return self._rules.list(tx, self._flow)


def _size(ranges: Sequence[OffsetRange]) -> int:
    return sum(each.stop - each.start for each in ranges)


def _portion(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """So many offsets of these ranges, from the beginning of each."""
    share = max(1, most // len(ranges))
    return [each._replace(stop=min(each.stop, each.start + share)) for each in ranges][:most]


def _rest(ranges: Sequence[OffsetRange], portion: Sequence[OffsetRange]) -> list[OffsetRange]:
    """What is left when a portion was gone through."""
    stops = {each.spot: each.stop for each in portion}
    left = [each._replace(start=stops.get(each.spot, each.start)) for each in ranges]
    return [each for each in left if not each.is_empty]


def learn_edits(database: Database, log: Log, flow: str) -> tuple[int, list[CorrectionRule]]:
    """How many edits were counted, and the rules that were found by them."""
    counted, rules = 0, []
    while edits := _next(database, flow):
        befores = {edit: _before(log, edit) for edit in edits}
        portion, new = _learn(database, flow, befores)
        counted += portion
        rules += new
        if len(edits) < PORTION:
            break
    return counted, rules


def _next(database: Database, flow: str) -> list[EditToLearn]:
    with database.read() as tx:
        return EvidenceStore(database).edits(tx, flow, PORTION)


def _before(log: Log, edit: EditToLearn) -> bytes | None:
    """The record as it has failed for the first time; None if the log does not have it any more."""
    try:
        record = log.record(edit.topic, edit.partition, edit.offset)
    except LogError:
        return None
    return None if record is None else record.value


def _learn(database: Database, flow: str, befores: dict[EditToLearn, bytes | None]) -> tuple[int, list[CorrectionRule]]:
    """L2."""
    evidence, rules = EvidenceStore(database), RuleStore(database)
    with database.transaction() as tx:
        known = rules.list(tx, flow)
        knowledge = Knowledge(known, evidence.read(tx, flow))
        counts, done = Counts(), 0
        for edit, before in befores.items():
            if evidence.mark(tx, edit):
                done += 1
                _add(tx, evidence, knowledge, flow, edit, before, counts)
        evidence.add(tx, flow, edited=counts)
        new = rules.add(tx, _meant_rules(flow, counts, known))
        crash.here(CrashPoint.LEARN_EDITS_BEFORE_COMMIT)
    crash.here(CrashPoint.LEARN_EDITS_AFTER_COMMIT)
    return done, new


def _add(
    tx: Transaction,
    evidence: EvidenceStore,
    knowledge: Knowledge,
    flow: str,
    edit: EditToLearn,
    before: bytes | None,
    counts: Counts,
) -> None:
    old, new = fields_of(before), fields_of(edit.value)
    if old is None or new is None:
        return
    changed = [field for field in new if token(old.get(field)) != token(new[field])]
    if not 0 < len(changed) <= MOST_FIELDS:
        return
    AcceptedTally(_wanted(knowledge.rules, changed)).add_decided(new, counts)
    counts.update(filter(None, (meant(new, field, old.get(field)) for field in changed)))
    findings = {each.suspect.field: each for each in examine(knowledge, old, edit.message)}
    for field in changed:
        rule, agrees = _verdict(findings.get(field), new, field)
        evidence.verdict(tx, flow, edit, field, rule, agrees)


def _verdict(finding: FieldFinding | None, new: Flat, field: str) -> tuple[int | None, bool | None]:
    """The rule that has suggested something for a field, and whether the operator has put the same."""
    if finding is None or not finding.proposals:
        return None, None
    best = finding.proposals[0]
    return best.rule.id, token(best.value) == token(new[field])


def _wanted(rules: Iterable[CorrectionRule], changed: Iterable[str]) -> TallyScope:
    """What an edit says about rules: only about the fields that it has changed."""
    fields = set(changed)
    return TallyScope.of([rule for rule in rules if rule.kind is RuleKind.DECIDED and rule.field in fields])


def _meant_rules(flow: str, counts: Counts, known: Iterable[CorrectionRule]) -> list[CorrectionRule]:
    fields = {count.field for count in counts if count.aspect == "meant"}
    fields -= {rule.field for rule in known if rule.kind is RuleKind.MEANT}
    return [CorrectionRule(flow, field, RuleKind.MEANT, support=MEANT_SUPPORT) for field in sorted(fields)]


def discover(flow: str, sample: Sequence[Flat]) -> list[CorrectionRule]:
    """The rules that a sample speaks for; none if it is too small to say anything."""
    if len(sample) < LEAST_RECORDS:
        return []
    columns = {name: column for name, column in _columns(sample).items() if column.is_there}
    by = _format_deciders(columns)
    rules = []
    for column in columns.values():
        if column.is_date:
            rules.append(CorrectionRule(flow, column.name, RuleKind.DATE, _without(by, column.name)))
        elif column.is_number:
            rules.append(CorrectionRule(flow, column.name, RuleKind.NUMBER, _without(by, column.name)))
        elif column.is_list:
            rules.append(CorrectionRule(flow, column.name, RuleKind.SLIP))
        rules += [CorrectionRule(flow, column.name, RuleKind.DECIDED, by) for by in _deciders(column, columns)]
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
