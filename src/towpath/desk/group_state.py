"""The states of a group of cases and the moves between them. docs/reference/desk-states.md is held equal to this."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class GroupState(StrEnum):
    """What persons think of a cause."""

    NEW = "new"  # nobody has looked at it
    ONGOING = "ongoing"  # known, and not done with
    RESOLVED = "resolved"  # done with; an error that comes now brings it back
    ARCHIVED = "archived"  # nobody wants to hear of it until so many more, a time, or a rate
    REGRESSED = "regressed"  # was done with or archived, and came back


_S = GroupState
MOVES: Mapping[GroupState, frozenset[GroupState]] = {
    _S.NEW: frozenset({_S.ONGOING, _S.RESOLVED, _S.ARCHIVED}),
    _S.ONGOING: frozenset({_S.RESOLVED, _S.ARCHIVED}),
    _S.RESOLVED: frozenset({_S.ARCHIVED, _S.REGRESSED}),
    _S.ARCHIVED: frozenset({_S.RESOLVED, _S.REGRESSED}),
    _S.REGRESSED: frozenset({_S.ONGOING, _S.RESOLVED, _S.ARCHIVED}),
}
