"""Learned corrections as people and programs use them: rules, suggestions, learning, and how right the rules are.

Nothing here loads Spark, except `learn`. The values of masked fields are hidden wherever rules quote them: what a
rule says about a field quotes the fields that decide it, so it is hidden with any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from towpath.core.events import Event, EventKind, Events
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.desk.cases.model import Case, CaseState
from towpath.desk.cases.store import CaseStore, HistoryEntry, HistoryStore
from towpath.desk.corrections.knowledge import KnowledgeCache
from towpath.desk.corrections.learner import Learner, LearnResult
from towpath.desk.corrections.model import Aspect, CorrectionRule, Doubt, RuleKind, RuleState
from towpath.desk.corrections.proposer import Correction, FieldCorrection, Suggestion, correction, suggestions
from towpath.desk.corrections.store import (
    RIGHT,
    UNKNOWN,
    WRONG,
    EvidenceStore,
    RuleStore,
    Touched,
    TouchedMark,
    TouchedStore,
)
from towpath.desk.masks import MASK, NO_MASKS, Mask, Masks
from towpath.desk.replay.outbox import OutboxWriter
from towpath.errors import BadValue
from towpath.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_TAKEN_BACK = 200  # cases in one transaction, which SQLite is to have done within 250 ms
MOST_LISTED = 1000
_ASPECTS = {RuleKind.DECIDED: Aspect.DECIDED, RuleKind.SLIP: Aspect.VALUE, RuleKind.MEANT: Aspect.MEANT}


class CorrectionService:
    """Rules, suggestions and the report, for one database."""

    def __init__(
        self,
        database: Database,
        events: Events,
        event_log: EventLog,
        log: Callable[[], Log],
        spark: Callable[[], SparkSession],
        read_blob: Callable[[str], bytes],
    ) -> None:
        self._database = database
        self._event_log = event_log
        self._rules = RuleStore(database)
        self._evidence = EvidenceStore(database)
        self._touched = TouchedStore(database)
        self._cases = CaseStore(database)
        self._history = HistoryStore(database)
        self._sends = OutboxWriter(database)
        self._cache = KnowledgeCache(database)
        self._read_blob = read_blob
        self._learner = Learner(database, events, event_log, log, spark)

    # Reading

    def rules(self, flow: str | None = None, state: RuleState | None = None) -> list[CorrectionRule]:
        """In the order in which they were found."""
        with self._database.read() as tx:
            return self._rules.list(tx, flow, state)

    def rule(self, id: int) -> CorrectionRule:
        """One rule; raises `UnknownRule`."""
        with self._database.read() as tx:
            return self._rules.read(tx, id)

    def show(
        self, id: int, limit: int = 20, *, masks: Masks = NO_MASKS
    ) -> tuple[CorrectionRule, list[Evidence], list[Touched]]:
        """A rule, the strongest evidence for it, and what it has touched last."""
        with self._database.read() as tx:
            rule = self._rules.read(tx, id)
            aspect, by = _ASPECTS.get(rule.kind, Aspect.LAYOUT), ",".join(rule.deciders)
            if rule.kind is not RuleKind.DECIDED:
                by = rule.field if rule.kind is RuleKind.MEANT else ""
            found = self._evidence.strongest(tx, rule.flow, rule.field, aspect, by, limit)
            touched = self._touched.of_rule(tx, id, limit)
        mask = masks.of(rule.flow)
        return rule, hidden_evidence(rule, (Evidence(*each) for each in found), mask), hidden_touched(touched, mask)

    def touched(
        self, id: int, limit: int = MOST_LISTED, before: TouchedMark | None = None, *, masks: Masks = NO_MASKS
    ) -> list[Touched]:
        """What a rule has changed without asking, the newest first; `before` is the mark of the last one shown."""
        with self._database.read() as tx:
            rule = self._rules.read(tx, id)
            found = self._touched.of_rule(tx, id, limit, before)
        return hidden_touched(found, masks.of(rule.flow))

    def suggest(self, case_id: str, *, masks: Masks = NO_MASKS) -> tuple[Case, list[Suggestion]]:
        """What may be wrong with the record of a case, field by field."""
        case, body = self._body(case_id)
        found = suggestions(self._cache.of(case.flow), body, case.message)
        return case, hidden_suggestions(found, masks.of(case.flow))

    def correction(self, case_id: str) -> Correction | Doubt:
        """What would be done to the record of a case without asking, or why nothing."""
        case, body = self._body(case_id)
        return correction(self._cache.of(case.flow), body, case.message)

    def report(self, flow: str) -> CorrectionReport:
        """How right the rules of a flow are; what is known by now is judged first."""
        self._learner.judge()
        with self._database.read() as tx:
            tallies, agreements = self._touched.tallies(tx, flow), self._touched.agreements(tx, flow)
            rules = self._rules.list(tx, flow)
        reports = []
        for rule in rules:
            done, said = tallies.get(rule.id, Counter()), agreements.get(rule.id, Counter())
            reports.append(RuleReport(rule, done[RIGHT], done[WRONG], done[UNKNOWN], said[True], said[False]))
        return CorrectionReport(flow, tuple(reports), agreements.get(None, Counter()).total())

    # Learning

    def learn(self, flow: str, *, error_topic: str | None = None, most_offsets: int = 1_000_000) -> LearnResult:
        """Count what has come since the last time, on Spark."""
        return self._learner.learn(flow, error_topic=error_topic, most_offsets=most_offsets)

    # Changes by hand

    def turn_on(
        self, id: int, *, who: str, why: str, support: int | None = None, confidence: float | None = None
    ) -> CorrectionRule:
        """Let a rule change records without asking, above its thresholds."""
        if support is not None and support < 1:
            raise BadValue(f"support {support}: at least 1 record has to say so")
        if confidence is not None and not 0 < confidence <= 1:
            raise BadValue(f"confidence {confidence:g}: it is above 0 and at most 1")
        return self._move(id, RuleState.ON, who, why, support, confidence)

    def turn_off(self, id: int, *, who: str, why: str) -> CorrectionRule:
        """Let a rule neither change nor suggest anything."""
        return self._move(id, RuleState.OFF, who, why)

    def revert(self, id: int, *, who: str, why: str) -> Reverted:
        """Do not believe a rule any more: list all that it has touched, and take back what has not gone out yet.

        When that was cut off, it goes on where it was.
        """
        rule = self._cut_off(id) or self._move(id, RuleState.REVERTED, who, why)
        taken_back: list[str] = []
        while portion := self._take_back(rule, who, why):
            taken_back += portion
        return Reverted(rule, tuple(self._all_touched(id)), tuple(taken_back))

    def _all_touched(self, id: int) -> Iterator[Touched]:
        mark: TouchedMark | None = None
        while page := self.touched(id, MOST_LISTED, mark):
            yield from page
            mark = page[-1].mark

    def _cut_off(self, id: int) -> CorrectionRule | None:
        """The rule if it is reverted already, and something of it could still be taken back."""
        with self._database.read() as tx:
            rule = self._rules.read(tx, id)
            is_left = rule.state is RuleState.REVERTED and self._touched.standing(tx, id, 1)
        return rule if is_left else None

    def _move(
        self,
        id: int,
        to: RuleState,
        who: str,
        why: str,
        support: int | None = None,
        confidence: float | None = None,
    ) -> CorrectionRule:
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> CorrectionRule:
            rule = self._rules.move(tx, id, to, who=who, why=why, support=support, confidence=confidence)
            data = {"state": rule.state, "flow": rule.flow, "text": rule.text}
            self._event_log.record(tx, Event(EventKind.RULE_CHANGED_BY_HAND, str(id), who, why, data))
            return rule

        return commit_by_hand(self._database, act)

    def _take_back(self, rule: CorrectionRule, who: str, why: str) -> list[str]:
        """The records themselves go out next, of cases that still have the correction."""

        def act(tx: Transaction) -> list[str]:
            standing = self._touched.standing(tx, rule.id, MOST_TAKEN_BACK)
            cases = self._cases.lock(tx, list(standing))
            waiting = [case.id for case in cases.values() if case.state is CaseState.WAITING]
            self._sends.recall(tx, waiting, who=who, why=why)
            done = [id for id, edit in standing.items() if self._cases.set_edit(tx, id, 0, frm_edit=edit)]
            said = {"rule": rule.id}
            self._history.add(tx, (HistoryEntry("correction taken back", who, why, id, data=said) for id in done))
            return done

        return commit_by_hand(self._database, act)

    def _body(self, case_id: str) -> tuple[Case, bytes]:
        with self._database.read() as tx:
            case = self._cases.find(tx, case_id)
            body = self._cases.bodies(tx, [case.id]).get(case.id)
        if body is None:
            raise BadValue(f"case {case.id} has no body: there is nothing to look at")
        return case, body.read(self._read_blob) or b""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a rule: given, value, and how many records and edits say so."""

    given: str
    value: str
    taken: int
    edited: int


@dataclass(frozen=True, slots=True)
class Reverted:
    """A reverted rule, all that it has touched, and the cases from which its correction was taken back."""

    rule: CorrectionRule
    touched: tuple[Touched, ...]
    taken_back: tuple[str, ...]  # cases


@dataclass(frozen=True, slots=True)
class CorrectionReport:
    """How right the rules of a flow are. Coverage and abstention are about bad fields: corrected, or edited."""

    flow: str
    rules: tuple[RuleReport, ...]
    abstained: int  # fields that a person has edited, and for which no rule had anything to suggest

    @property
    def corrected(self) -> int:
        return sum(each.right + each.wrong + each.unknown for each in self.rules)

    @property
    def suggested(self) -> int:
        return sum(each.agreed + each.differed for each in self.rules)

    @property
    def precision(self) -> float | None:
        right, wrong = sum(each.right for each in self.rules), sum(each.wrong for each in self.rules)
        return _share(right, right + wrong)

    @property
    def agreement(self) -> float | None:
        agreed = sum(each.agreed for each in self.rules)
        return _share(agreed, self.suggested)

    @property
    def coverage(self) -> float | None:
        """The share of the bad fields for which there was a correction or the suggestion of the right value."""
        found = self.corrected + sum(each.agreed for each in self.rules)
        return _share(found, self.corrected + self.suggested + self.abstained)

    @property
    def abstention(self) -> float | None:
        return _share(self.abstained, self.corrected + self.suggested + self.abstained)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "corrected": self.corrected,
            "suggested": self.suggested,
            "abstained": self.abstained,
            "precision": self.precision,
            "agreement": self.agreement,
            "coverage": self.coverage,
            "abstention": self.abstention,
            "rules": [each.to_json() for each in self.rules],
        }


@dataclass(frozen=True, slots=True)
class RuleReport:
    """How right one rule is."""

    rule: CorrectionRule
    right: int  # corrections with which the record has loaded
    wrong: int  # with which it has failed again, or that a person has replaced
    unknown: int
    agreed: int  # operators have put what it had suggested
    differed: int

    @property
    def precision(self) -> float | None:
        """Of the corrections of which it is known; None: of none."""
        return _share(self.right, self.right + self.wrong)

    @property
    def agreement(self) -> float | None:
        return _share(self.agreed, self.agreed + self.differed)

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule.id,
            "text": self.rule.text,
            "state": self.rule.state,
            "right": self.right,
            "wrong": self.wrong,
            "unknown": self.unknown,
            "precision": self.precision,
            "agreed": self.agreed,
            "differed": self.differed,
            "agreement": self.agreement,
        }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def hidden_evidence(rule: CorrectionRule, found: Iterable[Evidence], mask: Mask) -> list[Evidence]:
    """Of one rule: the values that decide, and the value that is decided."""
    hides_given = any(map(mask.hides, rule.deciders)) or mask.hides(rule.field)
    hides_value = mask.hides(rule.field)
    return [
        replace(each, given=MASK if hides_given else each.given, value=MASK if hides_value else each.value)
        for each in found
    ]


def hidden_touched(found: Iterable[Touched], mask: Mask) -> list[Touched]:
    """What stood in fields, and what rules have put there."""
    return [replace(each, before=MASK, after=MASK) if mask.hides(each.field) else each for each in found]


def hidden_suggestions(found: Iterable[Suggestion], mask: Mask) -> list[Suggestion]:
    """Of one record. Which field is at fault, and why, is no secret."""
    return [
        replace(
            each,
            before=MASK if mask.hides(each.field) else each.before,
            changes=tuple(_hidden_change(change, mask) for change in each.changes),
        )
        for each in found
    ]


def _hidden_change(found: FieldCorrection, mask: Mask) -> FieldCorrection:
    is_hidden = mask.hides(found.field)
    return replace(
        found,
        before=MASK if is_hidden else found.before,
        after=MASK if is_hidden else found.after,
        said=MASK if is_hidden or any(map(mask.hides, found.deciders)) else found.said,
    )
