"""What is known for one flow: its rules and the counts behind them, and a cache of that for all flows."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from towpath.db import Database
from towpath.desk.corrections.formats import allowed_slips, folded, slips_between
from towpath.desk.corrections.model import Aspect, CorrectionRule, Counts, RuleKind, RuleState, value_of
from towpath.desk.corrections.store import EvidenceStore, RuleStore
from towpath.desk.corrections.tally import Profile, profiles_of

DIRT = 20  # a value so many times less frequent than another, and a slip away from it, is that one with a slip
SEEN_AGAIN = 3
_NO_PROFILE = Profile("", 0)

LOOK_S = 1.0  # between two questions whether something has changed


class KnowledgeCache:
    """The knowledge of all flows, kept in memory and read again when it has changed. Safe for threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rules = RuleStore(database)
        self._evidence = EvidenceStore(database)
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def of(self, flow: str) -> Knowledge:
        """What is known for a flow at this moment."""
        with self._lock:
            known = self._look(flow, is_needed=True)
        assert known.knowledge is not None  # noqa: S101 - it was needed
        return known.knowledge

    def is_fresh(self, flow: str) -> bool:
        """Whether it was looked at within the last second: then the database is not asked."""
        known = self._known.get(flow)
        return known is not None and time.monotonic() - known.looked_at < LOOK_S

    def for_automatic(self, flow: str) -> Knowledge | None:
        """What is known for a flow, perhaps a second old; None where no rule is on: most flows need none of it."""
        with self._lock:
            known = self._known[flow] if self.is_fresh(flow) else self._look(flow)
        return known.knowledge if known.has_rules_on else None

    def _look(self, flow: str, *, is_needed: bool = False) -> _Known:
        before = self._known.get(flow)
        with self._database.read() as tx:
            version = self._rules.version(tx, flow)
            is_same = before is not None and before.version == version
            if before is not None and is_same and (before.knowledge is not None or not is_needed):
                has_rules_on, knowledge = before.has_rules_on, before.knowledge
            else:
                rules = self._rules.list(tx, flow)
                has_rules_on, knowledge = any(rule.state is RuleState.ON for rule in rules), None
                if has_rules_on or is_needed:
                    knowledge = Knowledge(rules, self._evidence.read(tx, flow))
        found = self._known[flow] = _Known(version, time.monotonic(), has_rules_on, knowledge)
        return found


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[Any, ...]
    looked_at: float
    has_rules_on: bool
    knowledge: Knowledge | None  # None: nobody has asked for it


class Knowledge:
    """Rules with their evidence, in memory. Made anew when either changes."""

    def __init__(self, rules: Sequence[CorrectionRule], counts: Counts) -> None:
        self.rules = tuple(rules)
        self._profiles = profiles_of(counts)
        self._decided: dict[tuple[str, str], dict[str, Counter[str]]] = {}
        self._meant: dict[tuple[str, str], Counter[str]] = {}
        self._orders: dict[tuple[str, str, str], Counter[str]] = {}
        for (field, aspect, deciders, given, value), count in counts.items():
            if aspect == Aspect.DECIDED:
                groups = self._decided.setdefault((field, deciders), {})
                groups.setdefault(given, Counter())[value] += count
            elif aspect == Aspect.MEANT:
                self._meant.setdefault((field, given), Counter())[value] += count
            elif aspect == Aspect.ORDER:
                self._orders.setdefault((field, deciders, given), Counter())[value] += count
        self._folded: set[tuple[str, str, str]] = set()
        self._qualities: dict[tuple[str, str], float] = {}

    def profile(self, field: str) -> Profile:
        return self._profiles.get(field, _NO_PROFILE)

    @property
    def fields(self) -> Iterable[str]:
        return self._profiles

    def rules_for(self, field: str, *kinds: RuleKind) -> list[CorrectionRule]:
        """The rules that may at least suggest something for a field."""
        return [rule for rule in self.rules if rule.field == field and rule.kind in kinds and rule.can_suggest]

    def rules_by(self, decider: str) -> list[CorrectionRule]:
        """The rules by which a field decides others."""
        return [rule for rule in self.rules if decider in rule.deciders and rule.kind is RuleKind.DECIDED]

    def with_rules(self, rules: Sequence[CorrectionRule]) -> Knowledge:
        """The same counts under other states and thresholds."""
        known = {rule.key: rule for rule in rules}
        other = Knowledge.__new__(Knowledge)
        other.__dict__.update(self.__dict__)
        other.rules = tuple(replace(known.get(rule.key, rule)) for rule in self.rules)
        return other

    def decided(self, rule: CorrectionRule, given: str) -> Counter[str]:
        """How often which value came with what the deciding fields have; slips of the most frequent count for it."""
        by = ",".join(rule.deciders)
        found = self._decided.get((rule.field, by), {}).get(given)
        if found is None:
            return Counter()
        place = (rule.field, by, given)
        if place not in self._folded:
            _fold(found)
            self._folded.add(place)
        return found

    def givens(self, rule: CorrectionRule) -> Iterable[str]:
        """All that the deciding fields were seen to have."""
        return self._decided.get((rule.field, ",".join(rule.deciders)), {})

    def quality(self, rule: CorrectionRule) -> float:
        """The share of taken records for which the rule would have been right."""
        place = (rule.field, ",".join(rule.deciders))
        if place not in self._qualities:
            seen = [group for given in self.givens(rule) if (group := self.decided(rule, given)).total() >= SEEN_AGAIN]
            total = sum(group.total() for group in seen)
            self._qualities[place] = sum(max(group.values()) for group in seen) / total if total else 0.0
        return self._qualities[place]

    def meant(self, field: str, given: str) -> Counter[str]:
        """What operators have put where a value stood."""
        return self._meant.get((field, given), Counter())

    def orders(self, field: str, decider: str = "", given: str = "") -> Counter[str]:
        """How failing records write dates and numbers of a field."""
        return self._orders.get((field, decider, given), Counter())


def _fold(counts: Counter[str]) -> None:
    """Count rare values that are the most frequent one with a typing slip for that one."""
    if len(counts) < 2:
        return
    top, most = counts.most_common(1)[0]
    wanted = value_of(top)
    if not isinstance(wanted, str):
        return
    for token, count in list(counts.items()):
        other = value_of(token)
        if token != top and count * DIRT <= most and isinstance(other, str) and _is_slip_of(other, wanted):
            counts[top] += counts.pop(token)


def _is_slip_of(text: str, wanted: str) -> bool:
    """Not where digits differ: those are other values."""
    if [each for each in text if each.isdigit()] != [each for each in wanted if each.isdigit()]:
        return False
    most = max(1, allowed_slips(wanted))
    return slips_between(folded(text), folded(wanted), most) <= most
