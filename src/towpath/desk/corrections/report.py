"""How right the rules of a flow are: by what became of the records, and by what operators have put."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.desk.corrections.rule import Rule
from towpath.desk.corrections.touched_store import RIGHT, UNKNOWN, WRONG


@dataclass(frozen=True, slots=True)
class RuleReport:
    """Of one rule."""

    rule: Rule
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


@dataclass(frozen=True, slots=True)
class Report:
    """Of a flow. Coverage and abstention are about fields that were bad: corrected, or edited by a person."""

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


def report_of(
    flow: str,
    rules: Sequence[Rule],
    tallies: Mapping[int, Counter[str]],
    agreements: Mapping[int | None, Counter[bool]],
) -> Report:
    """From the counts of verdicts by rule."""
    found = tuple(_rule_report(rule, tallies, agreements) for rule in rules)
    return Report(flow, found, agreements.get(None, Counter()).total())


def _rule_report(
    rule: Rule, tallies: Mapping[int, Counter[str]], agreements: Mapping[int | None, Counter[bool]]
) -> RuleReport:
    done, said = tallies.get(rule.id, Counter()), agreements.get(rule.id, Counter())
    return RuleReport(rule, done[RIGHT], done[WRONG], done[UNKNOWN], said[True], said[False])


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
