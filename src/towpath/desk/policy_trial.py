"""A dry run of rules: which of the present cases each would have caught, had it counted when they failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towpath.db import Database
from towpath.desk.case import Body, Case
from towpath.desk.case_state import LIVE
from towpath.desk.case_store import CaseStore
from towpath.desk.decision import Again, Correct, Decision, Ignore, Isolate, Salvage
from towpath.desk.policies import NamedRule, Policies, decision
from towpath.desk.selection import Selection
from towpath.log.record import Record

PAGE = 500
MOST_CASES = 100_000


@dataclass(frozen=True, slots=True)
class Caught:
    """What one rule would have done, by the name of the decision."""

    rule: NamedRule
    cases: int
    decisions: dict[str, int]
    unreadable: int  # records that its expression is not about


@dataclass(frozen=True, slots=True)
class Trial:
    """Of so many cases, the newest first, what each rule would have caught; and what none has."""

    cases: int
    is_all: bool
    caught: tuple[Caught, ...]
    uncaught: int


def try_rules(
    database: Database,
    cases: CaseStore,
    policies: Policies,
    flow: str,
    blob: Callable[[str], bytes],
    most: int = MOST_CASES,
) -> Trial:
    """Changes nothing. A case counts with the failures that it has had so far."""
    rules = policies.rules.get(flow, ())
    found: Counter[tuple[str, str]] = Counter()
    seen, before, uncaught = 0, None, 0
    selection = Selection(flow=flow, states=tuple(sorted(LIVE)))
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
    return Trial(seen, seen < most, caught, uncaught)


def name_of(decided: Decision) -> str:
    """What people call a decision."""
    match decided:
        case Isolate():
            return "isolate"
        case Ignore():
            return "ignore"
        case Again(delay_s=None):
            return "repeat"
        case Again():
            return "repeat after"
        case Correct():
            return "correct"
        case Salvage():
            return "salvage"


def _reads_bodies(rules: Sequence[NamedRule]) -> bool:
    wheres = (named.rule.match.where for named in rules)
    return any(where is not None and where.names & {"value", "headers"} for where in wheres)


def _record(case: Case, body: Body | None, blob: Callable[[str], bytes]) -> Record:
    value, headers = (None, ()) if body is None else (_value(body, blob), body.headers)
    return Record(case.topic, case.partition, case.offset, 0, case.key, value, headers)


def _value(body: Body, blob: Callable[[str], bytes]) -> bytes | None:
    if body.blob is None:
        return body.value
    try:
        return blob(body.blob)
    except OSError:
        return None  # then no expression holds


def _caught(rule: NamedRule, found: Counter[tuple[str, str]], unreadable: int) -> Caught:
    decisions = {name: count for (id, name), count in sorted(found.items()) if id == rule.id}
    return Caught(rule, sum(decisions.values()), decisions, unreadable)
