"""Learned corrections as persons and programs use them. Nothing here loads Spark, except `learn`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.db import Database, Transaction
from towpath.db.by_hand import check_who, check_why, commit_by_hand
from towpath.db.event_log import EventLog
from towpath.desk.case import Case
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import CaseStore
from towpath.desk.corrections.correcting import correction, suggestions
from towpath.desk.corrections.correction import Correction, Suggestion
from towpath.desk.corrections.count import Aspect
from towpath.desk.corrections.evidence_store import EvidenceStore
from towpath.desk.corrections.hiding import Evidence, hidden_evidence, hidden_suggestions, hidden_touched
from towpath.desk.corrections.knowing import Knowing
from towpath.desk.corrections.learning import Learned, Learning
from towpath.desk.corrections.mender import LearnedMender
from towpath.desk.corrections.proposal import Doubt
from towpath.desk.corrections.report import Report, report_of
from towpath.desk.corrections.rule import Rule, RuleKind
from towpath.desk.corrections.rule_state import RuleState
from towpath.desk.corrections.rule_store import RuleStore
from towpath.desk.corrections.touched_store import Touched, TouchedMark, TouchedStore
from towpath.desk.history import Entry, HistoryStore
from towpath.desk.masking import NO_MASKS, Masks
from towpath.desk.sending import Sends
from towpath.errors import BadValue
from towpath.events import Event, EventKind, Events
from towpath.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_TAKEN_BACK = 200  # cases in one transaction, which SQLite is to have done within 250 ms
MOST_LISTED = 1000

_ASPECTS = {RuleKind.DECIDED: Aspect.DECIDED, RuleKind.SLIP: Aspect.VALUE, RuleKind.MEANT: Aspect.MEANT}


@dataclass(frozen=True, slots=True)
class Reverted:
    """A rule that nobody believes any more, all that it has touched, and what of that could still be taken back."""

    rule: Rule
    touched: tuple[Touched, ...]
    taken_back: tuple[str, ...]  # cases


class Corrections:
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
        self._sends = Sends(database)
        self._knowing = Knowing(database)
        self._read_blob = read_blob
        self._learning = Learning(database, events, event_log, log, spark)

    # Reading

    def rules(self, flow: str | None = None, state: RuleState | None = None) -> list[Rule]:
        """In the order in which they were found."""
        with self._database.read() as tx:
            return self._rules.list(tx, flow, state)

    def rule(self, id: int) -> Rule:
        """One rule; raises `UnknownRule`."""
        with self._database.read() as tx:
            return self._rules.read(tx, id)

    def show(self, id: int, limit: int = 20, *, masks: Masks = NO_MASKS) -> tuple[Rule, list[Evidence], list[Touched]]:
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
        found = suggestions(self._knowing.of(case.flow), body, case.message)
        return case, hidden_suggestions(found, masks.of(case.flow))

    def correction(self, case_id: str) -> Correction | Doubt:
        """What would be done to the record of a case without asking, or why nothing."""
        case, body = self._body(case_id)
        return correction(self._knowing.of(case.flow), body, case.message)

    def report(self, flow: str) -> Report:
        """How right the rules of a flow are; what is known by now is judged first."""
        self._learning.judge()
        with self._database.read() as tx:
            tallies, agreements = self._touched.tallies(tx, flow), self._touched.agreements(tx, flow)
            return report_of(flow, self._rules.list(tx, flow), tallies, agreements)

    def mender(self) -> LearnedMender:
        """For intake."""
        return LearnedMender(self._database)

    # Learning

    def learn(self, flow: str, *, error_topic: str | None = None, most_offsets: int = 1_000_000) -> Learned:
        """Count what has come since the last time, on Spark."""
        return self._learning.learn(flow, error_topic=error_topic, most_offsets=most_offsets)

    # Changes by hand

    def turn_on(
        self, id: int, *, who: str, why: str, support: int | None = None, confidence: float | None = None
    ) -> Rule:
        """Let a rule change records without asking, above its thresholds."""
        if support is not None and support < 1:
            raise BadValue(f"support {support}: at least 1 record has to say so")
        if confidence is not None and not 0 < confidence <= 1:
            raise BadValue(f"confidence {confidence:g}: it is above 0 and at most 1")
        return self._move(id, RuleState.ON, who, why, support, confidence)

    def turn_off(self, id: int, *, who: str, why: str) -> Rule:
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

    def _cut_off(self, id: int) -> Rule | None:
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
    ) -> Rule:
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> Rule:
            rule = self._rules.move(tx, id, to, who=who, why=why, support=support, confidence=confidence)
            data = {"state": rule.state, "flow": rule.flow, "text": rule.text}
            self._event_log.record(tx, Event(EventKind.RULE_CHANGED_BY_HAND, str(id), who, why, data))
            return rule

        return commit_by_hand(self._database, act)

    def _take_back(self, rule: Rule, who: str, why: str) -> list[str]:
        """The records themselves go out next, of cases that still have the correction."""

        def act(tx: Transaction) -> list[str]:
            standing = self._touched.standing(tx, rule.id, MOST_TAKEN_BACK)
            cases = self._cases.lock(tx, list(standing))
            waiting = [case.id for case in cases.values() if case.state is CaseState.WAITING]
            self._sends.recall(tx, waiting, who=who, why=why)
            done = [id for id, edit in standing.items() if self._cases.set_edit(tx, id, 0, frm_edit=edit)]
            said = {"rule": rule.id}
            self._history.add(tx, (Entry("correction taken back", who, why, id, data=said) for id in done))
            return done

        return commit_by_hand(self._database, act)

    def _body(self, case_id: str) -> tuple[Case, bytes]:
        with self._database.read() as tx:
            case = self._cases.find(tx, case_id)
            body = self._cases.bodies(tx, [case.id]).get(case.id)
        if body is None:
            raise BadValue(f"case {case.id} has no body: there is nothing to look at")
        return case, (body.value or b"") if body.blob is None else self._read_blob(body.blob)
