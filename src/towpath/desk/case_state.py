"""The states of a case and the moves between them. docs/reference/desk-states.md is held equal to this."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class CaseState(StrEnum):
    """Where a record that has failed is."""

    WAITING = "waiting"  # in a lane, to be tried again when it is due
    PARKED = "parked"  # behind another record of its key
    OPEN = "open"  # in front of a person
    REPLAYING = "replaying"  # sent back into the flow; what became of it is not known yet
    IGNORED = "ignored"  # dismissed by a rule that a person has approved
    RESOLVED = "resolved"  # loaded, or left out by a step, after it was sent back
    ABANDONED = "abandoned"  # dismissed by a person
    RESENT = "resent"  # sent to the source again, where it counts as a new record

    @property
    def is_settled(self) -> bool:
        """Whether it has left the desk for good."""
        return not MOVES[self]


_S = CaseState
MOVES: Mapping[CaseState, frozenset[CaseState]] = {
    _S.WAITING: frozenset({_S.REPLAYING, _S.OPEN, _S.RESENT, _S.ABANDONED}),
    _S.PARKED: frozenset({_S.REPLAYING, _S.OPEN, _S.ABANDONED}),
    _S.OPEN: frozenset({_S.WAITING, _S.REPLAYING, _S.RESENT, _S.ABANDONED}),
    _S.REPLAYING: frozenset({_S.RESOLVED, _S.WAITING, _S.OPEN, _S.IGNORED, _S.RESENT}),
    _S.IGNORED: frozenset({_S.OPEN, _S.ABANDONED}),
    _S.RESOLVED: frozenset(),
    _S.ABANDONED: frozenset(),
    _S.RESENT: frozenset(),
}
FIRST = frozenset({_S.WAITING, _S.PARKED, _S.OPEN, _S.REPLAYING, _S.IGNORED})  # in which a case may begin
LIVE = frozenset(state for state, targets in MOVES.items() if targets)
