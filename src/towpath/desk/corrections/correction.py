"""A correction of one record, and the suggestions on a case, as others see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from towpath.desk.corrections.fields import Scalar, token
from towpath.desk.corrections.proposal import Doubt, Proposal
from towpath.desk.corrections.proposing import Finding


@dataclass(frozen=True, slots=True)
class Change:
    """One field, what stood there and what is put there, by which rule."""

    rule_id: int
    field: str
    before: Scalar
    after: Scalar
    support: int
    confidence: float
    said: str
    deciders: tuple[str, ...] = ()  # whose values are quoted

    @classmethod
    def of(cls, proposal: Proposal, before: Scalar) -> Change:
        rule, found = proposal.rule, (proposal.value, proposal.support, proposal.confidence, proposal.said)
        return cls(rule.id, rule.field, before, *found, rule.deciders)

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.field}: {token(self.before)} → {token(self.after)} ({self.said})"

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule_id,
            "field": self.field,
            "before": self.before,
            "after": self.after,
            "support": self.support,
            "confidence": round(self.confidence, 4),
            "said": self.said,
        }


@dataclass(frozen=True, slots=True)
class Correction:
    """All changes of one record, and the body with them."""

    changes: tuple[Change, ...]
    value: bytes

    @property
    def header(self) -> str:
        """What the record says about itself from now on: `rule:7 city; rule:9 country`."""
        return "; ".join(f"rule:{each.rule_id} {each.field}" for each in self.changes)

    @property
    def who(self) -> str:
        return f"rule:{self.changes[0].rule_id}"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What may be wrong with a field of a case, what is suggested, and why it is not done without asking."""

    field: str
    before: Scalar
    fault: str
    changes: tuple[Change, ...]  # the surest first; none: nothing is suggested
    doubt: Doubt | None

    @classmethod
    def of(cls, finding: Finding) -> Suggestion:
        suspect = finding.suspect
        changes = tuple(Change.of(each, suspect.value) for each in finding.proposals)
        return cls(suspect.field, suspect.value, suspect.fault, changes, finding.doubt)

    def to_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "before": self.before,
            "fault": self.fault,
            "changes": [each.to_json() for each in self.changes],
            "doubt": self.doubt,
        }
