"""Learning for a flow: from records that it has taken, from those that have failed, and from operators' edits.

L1. Judge: what rules have changed has loaded, or has failed again.
L2. Edits of persons with which cases were resolved: their counts and the mark that they were counted, one transaction.
L3. For a range of each topic, from where counting ended to where the flow has committed: find rules in a sample, and
    count on Spark what the rules can use. Nothing is written meanwhile.
L4. In one transaction: the counts, and the position of each partition, guarded by where it was. Of two learners one
    finds no row, and nothing that it has counted is kept.

Dying anywhere between, a successor begins again at L1: what is committed is marked as such, all else is counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.corrections.count import Count, Counts
from towpath.desk.corrections.discovery import discover
from towpath.desk.corrections.edits import learn_edits
from towpath.desk.corrections.evidence_store import EvidenceStore
from towpath.desk.corrections.fields import flattened
from towpath.desk.corrections.rule import Rule
from towpath.desk.corrections.rule_store import RuleStore
from towpath.desk.corrections.tally import Failing, Taken, Wanted
from towpath.desk.corrections.touched_store import TouchedStore
from towpath.errors import UnknownFlow, UnknownTopic
from towpath.events import Event, EventKind, Events
from towpath.flow.ledger import Ledger
from towpath.flow.positions import Range
from towpath.flow.stage_store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.flow.counting import Counting

RANGE_OFFSETS = 100_000  # that are counted at once
SAMPLE_RECORDS = 5_000  # in which rules are looked for
MOST_JUDGED = 1_000  # cases, and
MOST_COUNTS = 5_000  # in one transaction, which SQLite is to have done within 250 ms
MOST_EVIDENCE = 1_000_000  # counts of a flow, above which nothing new is learned


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of it."""

    offsets: int = 0  # that were gone through
    edits: int = 0
    rules: tuple[Rule, ...] = ()  # that are new
    right: int = 0  # corrections of which it is known now
    wrong: int = 0
    is_full: bool = False  # there is no room for more counts


class Learning:
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
        self._evidence = EvidenceStore(database)
        self._touched = TouchedStore(database)
        self._stages = StageStore(database)
        self._ledger = Ledger(database)

    def learn(self, flow: str, *, error_topic: str | None = None, most_offsets: int = 1_000_000) -> Learned:
        """Count what has come since the last time; `most_offsets` bounds how much."""
        self._check_flow(flow)
        right, wrong = self.judge()
        edits, rules = learn_edits(self._database, self._log(), flow)
        counter = _Counter(self, flow, FlowTopics.of(flow, error_topic).errors)
        offsets, more, is_full = counter.run(most_offsets)
        found = Learned(offsets, edits, (*rules, *more), right, wrong, is_full)
        self._tell(flow, found)
        return found

    def judge(self) -> tuple[int, int]:
        """L1: how many corrections have turned out to be right, and wrong, since the last time."""
        right = wrong = 0
        while ids := self._to_judge():
            more = self._judge(ids)
            right, wrong = right + more[0], wrong + more[1]
            if len(ids) < MOST_JUDGED:
                break
        return right, wrong

    def _to_judge(self) -> list[str]:
        with self._database.read() as tx:
            return self._touched.to_judge(tx, MOST_JUDGED)

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

    def _tell(self, flow: str, found: Learned) -> None:
        if found.rules:
            texts = {str(rule.id): rule.text for rule in found.rules}
            with self._database.transaction() as tx:
                self._event_log.record(tx, Event(EventKind.RULES_FOUND, flow, data=texts))
        data = {"offsets": found.offsets, "edits": found.edits}
        self._events.publish(Event(EventKind.CORRECTIONS_LEARNED, flow, data=data))

    # L3 and L4

    def ranges(self, flow: str, errors: str) -> tuple[list[Range], list[Range]]:
        """What is to be counted: of the topics that the flow reads, and of its error topic."""
        log = self._log()
        with self._database.read() as tx:
            known = self._evidence.positions(tx, flow)
            stops = self._committed(tx, flow)
        back = FlowTopics.of(flow).reentry
        taken = [each for each in self._found(log, known, stops) if each.topic != back]
        try:
            id, ends = log.topic(errors).id, log.ends(errors)
        except UnknownTopic:
            return taken, []
        failed = self._found(log, known, {(errors, id, number): end for number, end in ends.items()})
        return taken, failed

    def _committed(self, tx: Any, flow: str) -> dict[tuple[str, str, int], int]:
        """Up to where every stage that reads a partition has committed."""
        found: dict[tuple[str, str, int], int] = {}
        for stage in self._stages.list(tx, flow):
            last = self._ledger.last_committed(tx, flow, stage.name, stage.generation)
            for each in last.positions if last is not None else ():
                place = (each.topic, each.topic_id, each.partition)
                found[place] = min(each.stop, found.get(place, each.stop))
        return found

    @staticmethod
    def _found(log: Log, known: dict[tuple[str, int], int], stops: dict[tuple[str, str, int], int]) -> list[Range]:
        found = []
        for (topic, id, number), stop in sorted(stops.items()):
            try:
                if log.topic(topic).id != id:
                    continue  # it was made again
            except UnknownTopic:
                continue
            start = known.get((id, number), log.starts(topic).get(number, 0))
            if start < stop:
                found.append(Range(topic, id, number, start, stop))
        return found

    def rules_of(self, flow: str) -> list[Rule]:
        with self._database.read() as tx:
            return self._rules.list(tx, flow)

    def add_rules(self, rules: Sequence[Rule]) -> list[Rule]:
        with self._database.transaction() as tx:
            return self._rules.add(tx, rules)

    def counting(self, errors: str) -> Counting:
        from towpath.flow.counting import Counting  # loads pyspark

        return Counting(self._spark(), self._log(), errors)

    def kept(self, ranges: Sequence[Range]) -> list[Range]:
        """The part of these ranges that the log still has."""
        log = self._log()
        starts = {each.topic: log.starts(each.topic) for each in ranges}
        cut = [each._replace(start=max(each.start, starts[each.topic].get(each.partition, 0))) for each in ranges]
        return [each for each in cut if each.start < each.stop]

    def commit(self, flow: str, counts: Counts, ranges: Sequence[Range]) -> None:
        """L4."""
        with self._database.transaction() as tx:
            self._evidence.move(tx, flow, ranges)
            self._evidence.add(tx, flow, taken=counts)
            crash.here(CrashPoint.LEARN_BEFORE_COMMIT)
        crash.here(CrashPoint.LEARN_AFTER_COMMIT)

    def has_room(self, flow: str) -> bool:
        with self._database.read() as tx:
            return self._evidence.size(tx, flow) < MOST_EVIDENCE


class _Counter:
    """Goes through the topics of a flow, range by range."""

    def __init__(self, learning: Learning, flow: str, errors: str) -> None:
        self._learning = learning
        self._flow = flow
        self._errors = errors
        self._new: list[Rule] = []
        self._offsets = 0

    def run(self, most: int) -> tuple[int, tuple[Rule, ...], bool]:
        """How many offsets were gone through, which rules are new, and whether there was no room for more."""
        taken, failed = self._learning.ranges(self._flow, self._errors)
        for is_failed, ranges in ((False, taken), (True, failed)):
            while ranges and self._offsets < most:
                if not self._learning.has_room(self._flow):
                    return self._offsets, tuple(self._new), True
                portion = _portion(ranges, min(RANGE_OFFSETS, most - self._offsets))
                self._count(portion, is_failed)
                ranges = _rest(ranges, portion)
        return self._offsets, tuple(self._new), False

    def _count(self, ranges: list[Range], is_failed: bool) -> None:
        """Count a portion, in smaller pieces where there is too much in it."""
        from towpath.flow.counting import TooMany

        try:
            counts = self._found(self._learning.kept(ranges), is_failed)
        except TooMany:
            first = _portion(ranges, max(1, _size(ranges) // 2))
            if first == ranges:
                counts = Counts()  # one record with more counts than can be: it is passed over
            else:
                self._count(first, is_failed)
                self._count(_rest(ranges, first), is_failed)
                return
        self._learning.commit(self._flow, counts, ranges)
        self._offsets += _size(ranges)

    def _found(self, ranges: Sequence[Range], is_failed: bool) -> Counts:
        if not ranges:
            return Counts()
        counting = self._learning.counting(self._errors)
        values = counting.failed(ranges) if is_failed else counting.taken(ranges)
        if not is_failed:
            self._discover(counting.some(values, SAMPLE_RECORDS))
        wanted = Wanted.of(self._learning.rules_of(self._flow))
        count = Failing(wanted) if is_failed else Taken(wanted)
        found = counting.count(values, count, len(Count._fields), MOST_COUNTS)
        return Counts({Count(*name): number for name, number in found.items()})

    def _discover(self, bodies: Sequence[bytes]) -> None:
        documents = (_document(body) for body in bodies)
        rules = discover(self._flow, [flattened(each) for each in documents if each is not None])
        known = {rule.key for rule in self._learning.rules_of(self._flow)}
        new = [rule for rule in rules if rule.key not in known]
        if new:
            self._new += self._learning.add_rules([replace(rule, flow=self._flow) for rule in new])


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _size(ranges: Sequence[Range]) -> int:
    return sum(each.stop - each.start for each in ranges)


def _portion(ranges: Sequence[Range], most: int) -> list[Range]:
    """So many offsets of these ranges, from the beginning of each."""
    share = max(1, most // len(ranges))
    return [each._replace(stop=min(each.stop, each.start + share)) for each in ranges][:most]


def _rest(ranges: Sequence[Range], portion: Sequence[Range]) -> list[Range]:
    """What is left when a portion was gone through."""
    stops = {each.spot: each.stop for each in portion}
    left = [each._replace(start=stops.get(each.spot, each.start)) for each in ranges]
    return [each for each in left if not each.is_empty]
