"""The roles of a peer and every move between. The chart in docs/reference/supervision-states.md is held equal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a peer is in its group."""

    ELECTING = "electing"  # it invites the others, and leads whoever has accepted so far
    MEMBER = "member"  # it follows a leader and asks it for signs of life
    COORDINATOR = "coordinator"  # it leads a group, and acts while it holds the term


class RoleMove(StrEnum):
    """What can happen to a peer. The value is the label of its arrow in the chart."""

    LEAD = "all have answered or had their time"
    SURRENDER = "met a higher rank"
    FOLLOW = "sent to another leader"
    MISS = "leader silent or leads no more"
    RESIGN = "cannot act and another could"


@dataclass(frozen=True, slots=True)
class RoleArrow:
    """One move: from which roles, to which."""

    sources: tuple[Role, ...]
    target: Role


_ELECTING, _MEMBER, _COORDINATOR = Role

MOVES: dict[RoleMove, RoleArrow] = {
    RoleMove.LEAD: RoleArrow((_ELECTING,), _COORDINATOR),
    RoleMove.SURRENDER: RoleArrow((_ELECTING, _COORDINATOR), _MEMBER),
    RoleMove.FOLLOW: RoleArrow((_MEMBER,), _MEMBER),
    RoleMove.MISS: RoleArrow((_MEMBER,), _ELECTING),
    RoleMove.RESIGN: RoleArrow((_COORDINATOR,), _ELECTING),
}
