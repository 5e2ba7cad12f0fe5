"""What an audit has come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from towpath.flow.audit.balance import Balance
from towpath.flow.audit.problem import Problem, Unproven


class Proof(StrEnum):
    """What is known about the contents of an output."""

    NOT_LOOKED = "not looked at"  # without --deep
    PROVEN = "proven"  # it holds what the ledger says, and nothing else
    PARTLY = "partly provable"  # what is there is right; what is not there may have been replaced
    NOT_PROVABLE = "not provable"  # it cannot be read back
    WRONG = "wrong"  # see the problems


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """One output of one stage, in deliveries."""

    stage: str
    output: str
    delivered: int
    proof: Proof = Proof.NOT_LOOKED
    found: int | None = None
    repeats: int = 0
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "output": self.output,
            "delivered": self.delivered,
            "found": self.found,
            "repeats": self.repeats,
            "proof": self.proof,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """All of it."""

    flow: str
    batches: int
    balance: Balance
    outputs: Sequence[OutputVerdict]
    problems: Sequence[Problem]
    unproven: Sequence[Unproven]
    errors: dict[str, int] = field(default_factory=dict)  # of the error topic: what is no problem, and worth knowing

    @property
    def is_balanced(self) -> bool:
        return not self.problems and self.balance.difference == 0

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "is_balanced": self.is_balanced,
            "batches": self.batches,
            **self.balance.to_json(),
            "error_topic": self.errors,
            "outputs": [each.to_json() for each in self.outputs],
            "problems": [each.to_json() for each in self.problems],
            "not_provable": [each.to_json() for each in self.unproven],
        }
