"""How right corrections are, and how many of those that are possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from bench.corrections.data_set import DataSet, Failing
from towpath.desk.corrections.knowledge import Knowledge
from towpath.desk.corrections.learner import discover
from towpath.desk.corrections.model import Counts, Doubt, RuleState, flattened
from towpath.desk.corrections.proposer import automatic, examine
from towpath.desk.corrections.tally import AcceptedTally, TallyScope
from towpath.desk.corrections.tally import FailedTally as FailingTally

SAMPLE = 5_000


@dataclass(frozen=True)
class Change:
    """One field of one failing record, changed."""

    at: int
    field: str
    is_right: bool
    score: float = 1.0


@dataclass(frozen=True)
class Score:
    """What was changed, and what could have been."""

    changes: Sequence[Change]
    correctable: int
    covered: int
    doubts: Counter[str]

    @property
    def precision(self) -> float:
        return sum(each.is_right for each in self.changes) / len(self.changes) if self.changes else 0.0

    @property
    def coverage(self) -> float:
        return self.covered / self.correctable if self.correctable else 0.0


def learned(data: DataSet) -> Knowledge:
    """What is known when all that was taken has been counted, with every rule turned on."""
    rules = discover(data.name, [flattened(each) for each in data.taken[:SAMPLE]])
    wanted = TallyScope.of(rules)
    counts: Counts = AcceptedTally(wanted)(map(orjson.dumps, data.taken))
    counts += FailingTally(wanted)(orjson.dumps(each.body) for each in data.before)
    return Knowledge([replace(rule, state=RuleState.ON) for rule in rules], counts)


def score(knowledge: Knowledge, failing: Sequence[Failing]) -> Score:
    """Every failing record as the desk would treat it under the policy `correct`."""
    changes: list[Change] = []
    doubts: Counter[str] = Counter()
    for at, each in enumerate(failing):
        found = automatic(examine(knowledge, flattened(each.body), each.message))
        if isinstance(found, Doubt):
            doubts[found.name] += 1
            continue
        changes += [Change(at, one.rule.field, one.value == each.truth.get(one.rule.field)) for one in found]
    return scored(changes, failing, doubts)


def scored(changes: Sequence[Change], failing: Sequence[Failing], doubts: Counter[str] | None = None) -> Score:
    right = {(each.at, each.field) for each in changes if each.is_right}
    correctable = {(at, field) for at, each in enumerate(failing) for field in each.correctable}
    return Score(changes, len(correctable), len(right & correctable), doubts or Counter())


def best_of(changes: Iterable[Change], many: int) -> list[Change]:
    """So many of the changes, those that are surest."""
    return sorted(changes, key=lambda each: -each.score)[:many]


Corrector = Callable[[DataSet], list[Change]]
