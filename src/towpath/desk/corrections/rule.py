"""A rule: which field may be corrected, by what, and how sure that has to be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from towpath.desk.corrections.rule_state import RuleState

SUPPORT = 5  # records that say the same
CONFIDENCE = 0.99
MOST_DECIDERS = 2


class RuleKind(StrEnum):
    """Where the new value comes from."""

    DECIDED = "decided"  # other fields decide it: postcode → city
    SLIP = "slip"  # the one known value that differs by a typing slip
    DATE = "date"  # the same day in the layout of the field
    NUMBER = "number"  # the same number as the field has it
    MEANT = "meant"  # what operators have put where the same bad value stood


@dataclass(frozen=True, slots=True)
class Rule:
    """One of a flow's. `id` 0: it was found and has not been stored."""

    flow: str
    field: str
    kind: RuleKind
    deciders: tuple[str, ...] = ()
    id: int = 0
    state: RuleState = RuleState.SUGGESTED
    support: int = SUPPORT
    confidence: float = CONFIDENCE
    # How often what it did was right and wrong, by outcomes and by persons.
    right: int = 0
    wrong: int = 0

    @property
    def name(self) -> str:
        """As it is written in histories: `rule:7`."""
        return f"rule:{self.id}"

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """By which it is known within its flow."""
        return self.field, self.kind, self.deciders

    @property
    def can_suggest(self) -> bool:
        return self.state in (RuleState.SUGGESTED, RuleState.ON)

    @property
    def text(self) -> str:
        """What it does, in words."""
        by = ", ".join(self.deciders)
        match self.kind:
            case RuleKind.DECIDED:
                return f"{by} → {self.field}" if by else f"{self.field} is always the same"
            case RuleKind.SLIP:
                return f"typing slips in {self.field}"
            case RuleKind.DATE:
                return f"dates in {self.field}"
            case RuleKind.NUMBER:
                return f"numbers in {self.field}"
            case RuleKind.MEANT:
                return f"what operators put for {self.field}"
