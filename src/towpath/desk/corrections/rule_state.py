"""The states of a rule and the moves between them. docs/reference/correction-states.md is held equal to this."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RuleState(StrEnum):
    """Whether a rule may change records by itself."""

    SUGGESTED = "suggested"  # found; it only suggests
    ON = "on"  # a person lets it change records by itself, above its thresholds
    OFF = "off"  # it does not even suggest: by a person, or because what it did was wrong too often
    REVERTED = "reverted"  # a person does not believe it any more, and has the list of all that it has touched


_S = RuleState
MOVES: Mapping[RuleState, frozenset[RuleState]] = {
    _S.SUGGESTED: frozenset({_S.ON, _S.OFF}),
    _S.ON: frozenset({_S.OFF, _S.REVERTED}),
    _S.OFF: frozenset({_S.ON, _S.REVERTED}),
    _S.REVERTED: frozenset({_S.ON}),
}
