"""What a person can ask of a stage. The process that runs it does it at its next turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.errors import IllegalWish
from towpath.flow.pilot.state import PilotState


class WishKind(StrEnum):
    """What can be asked."""

    PAUSE = "pause"  # come to rest after the present attempt, until somebody says resume
    RESUME = "resume"  # go on after a pause or a halt; in a wait or an outage: try now
    STOP = "stop"  # end in an orderly way
    RESET = "reset"  # begin anew from the positions in the arguments, with a new checkpoint


_ALL = frozenset(PilotState)

# In which states each can be asked.
POSSIBLE: dict[WishKind, frozenset[PilotState]] = {
    WishKind.PAUSE: _ALL - {PilotState.PAUSED, PilotState.STOPPED, PilotState.HALTED},
    WishKind.RESUME: frozenset({PilotState.PAUSED, PilotState.HALTED, PilotState.RETRY, PilotState.HELD}),
    WishKind.STOP: _ALL - {PilotState.STOPPED},
    WishKind.RESET: _ALL,
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asked, why and when."""

    kind: WishKind
    who: str
    why: str
    at: datetime
    arguments: Mapping[str, Any] = field(default_factory=dict)


def refusal(flow: str, stage: str, kind: WishKind, state: PilotState) -> IllegalWish:
    possible = ", ".join(each for each in WishKind if state in POSSIBLE[each])
    return IllegalWish(f"stage {stage} of {flow} is {state}: it cannot {kind}; possible now: {possible}")
