"""The rules of flows: shown, set, withdrawn and tried out. Each change is one transaction with its event.

A trial counts which of the present cases each rule would have caught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towpath.core.clock import to_datetime
from towpath.core.events import Event, EventKind
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.desk.cases.model import LIVE, Body, Case, CaseSelection, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.masks import NO_MASKS, Masks
from towpath.desk.policies.rules import (
    CorrectDecision,
    Decision,
    IgnoreDecision,
    IsolateDecision,
    NamedRule,
    Policies,
    RepeatDecision,
    SalvageDecision,
    decision,
)
from towpath.desk.policies.store import FROM_CODE, PolicyOrigin, PolicyStore, Version
from towpath.errors import BadPolicy, ChangedMeanwhile, FieldsMasked, UnknownFlow, UnknownPolicy
from towpath.flow.stage.store import StageStore
from towpath.log.record import Record
from towpath.policy import Ignore, Policy, Rule

PAGE = 500
MOST_CASES = 100_000

OPENED_AT_ONCE = 500
TRIED = "new"  # stands for the version in the names of rules that are tried out


class PolicyService:
    """Shows, sets, withdraws and tries out the rules of flows."""

    def __init__(self, database: Database, event_log: EventLog, blob: Callable[[str], bytes]) -> None:
        self._database = database
        self._event_log = event_log
        self._blob = blob
        self._store = PolicyStore(database)
        self._cases = CaseStore(database)
        self._stages = StageStore(database)

    # Looking

    def flows(self) -> list[str]:
        """Flows that have run here: for these rules can be set."""
        with self._database.glance() as tx:
            return sorted({stage.flow for stage in self._stages.list(tx)})

    def current(self, flow: str | None = None) -> list[Version]:
        """What counts now, operators' rules first."""
        with self._database.glance() as tx:
            found = self._store.latest(tx, flow)
        return sorted(found, key=lambda each: (each.flow, each.origin is PolicyOrigin.CODE))

    def versions(self, flow: str) -> list[Version]:
        """All versions of a flow's rules, the newest first."""
        with self._database.glance() as tx:
            return self._store.versions(tx, flow)

    def show(self, flow: str, origin: PolicyOrigin, version: int) -> Version:
        """One version; raises `UnknownPolicy`."""
        for each in self.versions(flow):
            if (each.origin, each.version) == (origin, version):
                return each
        raise UnknownPolicy(f"flow {flow!r} has no version {version} of the {origin}'s rules")

    def error_topic(self, flow: str) -> str | None:
        """The error topic of a flow, if its code names another than the usual one."""
        with self._database.glance() as tx:
            found = self._store.current(tx, flow, PolicyOrigin.CODE)
        return None if found is None else found.error_topic

    # Changing

    def declare(self, flow: str, error_topic: str | None, rules: Sequence[Rule]) -> None:
        """What a flow's code says, kept when it is another than before."""
        try:
            with self._database.transaction() as tx:
                made = self._store.declare(tx, flow, error_topic, rules)
                if made is not None:
                    self._record(tx, made)
        except ChangedMeanwhile:  # another process of the same flow was faster
            return

    def set(self, flow: str, rules: Sequence[Rule], *, who: str, why: str, after: int | None = None) -> Version:
        """Operators' rules from now on, in place of those they had. `after` is the version they were made from."""
        check_who(who)
        check_why(why)
        self._check_ends(rules)

        def act(tx: Transaction) -> Version:
            self._check_flow(tx, flow)
            made = self._store.set(tx, flow, rules, who=who, why=why, after=after)
            self._record(tx, made)
            return made

        return commit_by_hand(self._database, act)

    def withdraw(self, flow: str, number: int, *, who: str, why: str) -> Withdrawn:
        """Take away one of the operators' rules, by its number in the version that counts."""
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> Withdrawn:
            now = self._store.current(tx, flow, PolicyOrigin.OPERATOR)
            rules = [] if now is None else [named.rule for named in now.rules]
            if not 0 <= number < len(rules):
                raise UnknownPolicy(f"the operators' rules for {flow!r} have no number {number}")
            rule = rules.pop(number)
            ids = tuple(self._store.ids_of(tx, flow, rule))
            ignored = self._store.count_ignored_by(tx, flow, ids) if ignores(rule.policy) else 0
            made = self._store.set(tx, flow, rules, who=who, why=why)
            self._record(tx, made)
            return Withdrawn(made, rule, ids, ignored)

        return commit_by_hand(self._database, act)

    def open_ignored(self, flow: str, rules: Sequence[str], *, who: str, why: str) -> int:
        """Put in front of persons what rules of these names have ignored; returns how many cases."""
        check_who(who)
        check_why(why)
        opened = 0

        def act(tx: Transaction) -> int:
            ids = self._store.ignored_by(tx, flow, rules, OPENED_AT_ONCE)
            return len(self._cases.move(tx, ids, CaseState.OPEN, frm=[CaseState.IGNORED], who=who, why=why))

        while moved := commit_by_hand(self._database, act):
            opened += moved
        return opened

    def try_out(
        self,
        flow: str,
        rules: Sequence[Rule] | None = None,
        *,
        most: int = MOST_CASES,
        masks: Masks = NO_MASKS,
    ) -> PolicyTrial:
        """How many of the present cases each rule would have caught: those that count now, or new operators' rules."""
        if rules is not None and masks.of(flow) and any(_asks_for_hidden(rule) for rule in rules):
            raise FieldsMasked(f"some fields of {flow} are masked for you: rules about records cannot be counted")
        with self._database.read() as tx:
            self._check_flow(tx, flow)
            now = self._store.policies(tx)
        if rules is not None:
            now = self._with(now, flow, rules)
        return try_rules(self._database, self._cases, now, flow, self._blob, most)

    def _with(self, now: Policies, flow: str, rules: Sequence[Rule]) -> Policies:
        new = [NamedRule(f"{flow}/{PolicyOrigin.OPERATOR}/{TRIED}/{at}", rule) for at, rule in enumerate(rules)]
        code = [each for each in now.rules.get(flow, ()) if each.id.startswith(f"{flow}/{PolicyOrigin.CODE}/")]
        return Policies({flow: [*new, *code]}, now.now)

    def _check_ends(self, rules: Sequence[Rule]) -> None:
        now = to_datetime(self._database.now())
        for rule in rules:
            for each in _ignores_in(rule.policy):
                if each.is_over(now):
                    raise BadPolicy(f"ignore: until {each.until:%Y-%m-%d %H:%M} UTC is over; give a later end")

    def _check_flow(self, tx: Transaction, flow: str) -> None:
        if not self._stages.list(tx, flow):
            raise UnknownFlow(flow, sorted({stage.flow for stage in self._stages.list(tx)}))

    def _record(self, tx: Transaction, made: Version) -> None:
        who = "towpath" if made.who == FROM_CODE else made.who
        data = {"origin": made.origin, "version": made.version, "rules": len(made.stored["policies"])}
        self._event_log.record(tx, Event(EventKind.POLICIES_CHANGED, made.flow, who, made.why, data))


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The version without the rule; and how many cases the rule had ignored, which may be opened now."""

    version: Version
    rule: Rule
    ids: tuple[str, ...]  # what cases call the rule
    ignored: int


def ignores(policy: Policy) -> bool:
    """Whether a rule may dismiss records, at once or after the last repeat."""
    return bool(_ignores_in(policy))


def _ignores_in(policy: Policy) -> Sequence[Ignore]:
    if isinstance(policy, Ignore):
        return [policy]
    then: Policy | None = getattr(policy, "then", None)
    return [] if then is None else _ignores_in(then)


def _asks_for_hidden(rule: Rule) -> bool:
    """The number of cases that a rule would catch tells what is hidden from the one who asks."""
    return rule.match.where is not None and bool(rule.match.where.names & {"value", "key", "headers", "message"})


def try_rules(
    database: Database,
    cases: CaseStore,
    policies: Policies,
    flow: str,
    blob: Callable[[str], bytes],
    most: int = MOST_CASES,
) -> PolicyTrial:
    """Changes nothing. A case counts with the failures that it has had so far."""
    rules = policies.rules.get(flow, ())
    found: Counter[tuple[str, str]] = Counter()
    seen, before, uncaught = 0, None, 0
    selection = CaseSelection(flow=flow, states=tuple(sorted(LIVE)))
    while seen < most:
        with database.read() as tx:
            page = cases.page(tx, selection, min(PAGE, most - seen), before)
            bodies = cases.bodies(tx, [case.id for case in page]) if _reads_bodies(rules) else {}
        for case in page:
            fits = policies.first(flow, case, case.attempts, _record(case, bodies.get(case.id), blob))
            if fits is None:
                uncaught += 1
            else:
                found[fits.id, name_of(decision(fits, case.attempts, policies.now))] += 1
        seen += len(page)
        if len(page) < PAGE:
            break
        before = page[-1].seq
    caught = tuple(_caught(rule, found, policies.unreadable[rule.id]) for rule in rules)
    return PolicyTrial(seen, seen < most, caught, uncaught)


@dataclass(frozen=True, slots=True)
class PolicyTrial:
    """Of so many cases, the newest first, what each rule would have caught; and what none has."""

    cases: int
    is_all: bool
    caught: tuple[Caught, ...]
    uncaught: int


@dataclass(frozen=True, slots=True)
class Caught:
    """What one rule would have done, by the name of the decision."""

    rule: NamedRule
    cases: int
    decisions: dict[str, int]
    unreadable: int  # records that its expression is not about


def name_of(decided: Decision) -> str:
    """What people call a decision."""
    match decided:
        case IsolateDecision():
            return "isolate"
        case IgnoreDecision():
            return "ignore"
        case RepeatDecision(delay_s=None):
            return "repeat"
        case RepeatDecision():
            return "repeat after"
        case CorrectDecision():
            return "correct"
        case SalvageDecision():
            return "salvage"


def _reads_bodies(rules: Sequence[NamedRule]) -> bool:
    wheres = (named.rule.match.where for named in rules)
    return any(where is not None and where.names & {"value", "headers"} for where in wheres)


def _record(case: Case, body: Body | None, blob: Callable[[str], bytes]) -> Record:
    try:
        value = None if body is None else body.read(blob)
    except OSError:
        value = None  # then no expression holds
    return Record(case.topic, case.partition, case.offset, 0, case.key, value, () if body is None else body.headers)


def _caught(rule: NamedRule, found: Counter[tuple[str, str]], unreadable: int) -> Caught:
    decisions = {name: count for (id, name), count in sorted(found.items()) if id == rule.id}
    return Caught(rule, sum(decisions.values()), decisions, unreadable)
