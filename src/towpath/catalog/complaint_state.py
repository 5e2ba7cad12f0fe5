"""The states of a complaint and every move between them; docs/reference/complaint-states.md is held equal to this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ComplaintState(StrEnum):
    """How far a complaint is."""

    NEW = "new"  # nobody has looked at it
    TAKEN = "taken"  # somebody is at it
    SETTLED = "settled"  # something was done about it, or it was dismissed


class ComplaintMove(StrEnum):
    """What can happen to a complaint. The value is the label of its arrow in a chart."""

    TAKE = "taken on"
    DISMISS = "dismissed"
    BLOCK = "blocked"  # a block rule keeps records of its key out
    RERUN = "re-run"  # its record was sent to its topic again


class Outcome(StrEnum):
    """How a complaint was settled."""

    DISMISSED = "dismissed"  # nothing is to be done
    BLOCKED = "blocked"  # a block rule was made
    RERUN = "re-run"  # the record was sent again


@dataclass(frozen=True, slots=True)
class Arrow:
    """One move: from which states, to which."""

    sources: tuple[ComplaintState, ...]
    target: ComplaintState


_NEW, _TAKEN, _SETTLED = ComplaintState
OPEN = (_NEW, _TAKEN)

MOVES: dict[ComplaintMove, Arrow] = {
    ComplaintMove.TAKE: Arrow(OPEN, _TAKEN),
    ComplaintMove.DISMISS: Arrow(OPEN, _SETTLED),
    ComplaintMove.BLOCK: Arrow(OPEN, _SETTLED),
    ComplaintMove.RERUN: Arrow(OPEN, _SETTLED),
}
SETTLING: dict[ComplaintMove, Outcome] = {
    ComplaintMove.DISMISS: Outcome.DISMISSED,
    ComplaintMove.BLOCK: Outcome.BLOCKED,
    ComplaintMove.RERUN: Outcome.RERUN,
}
