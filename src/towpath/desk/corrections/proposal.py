"""What a rule proposes for a field, and how sure that is; or why it has nothing to propose."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from towpath.desk.corrections.fields import Scalar
from towpath.desk.corrections.rule import Rule

PRIOR = 4.0  # records that the rule's own quality counts for
TRACK_PRIOR = 20.0  # corrections that are taken to have been right before there were any


class Doubt(StrEnum):
    """Why nothing is done."""

    NO_RULE = "no rule says anything about it"
    NOT_ON = "the rule is not turned on"
    FEW = "too few records say so"
    UNSURE = "too many records say otherwise"
    CONFLICT = "two rules say different things"
    CONTRADICTED = "another field of the record speaks against it"
    DIRTY = "the field that decides it is doubtful itself"
    AMBIGUOUS = "it can be read in several ways"
    UNCONFIRMED = "the value is a known one, and nothing confirms that it is wrong"
    NOTHING_WRONG = "no field of it looks wrong"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A new value for a field."""

    rule: Rule
    value: Scalar
    support: int  # records that say so
    confidence: float
    said: str  # the evidence, for people

    @property
    def is_enough(self) -> bool:
        """Whether it is above the thresholds of its rule."""
        return self.support >= self.rule.support and self.confidence >= self.rule.confidence


def shrunk(agreeing: float, total: float, quality: float) -> float:
    """The share that agrees, drawn to the quality of the whole rule where there are few."""
    return (agreeing + PRIOR * quality) / (total + PRIOR)


def tracked(confidence: float, rule: Rule) -> float:
    """The same, less what the rule has done wrong so far."""
    return confidence * (rule.right + TRACK_PRIOR) / (rule.right + rule.wrong + TRACK_PRIOR)
