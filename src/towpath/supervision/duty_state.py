"""The states of a duty and every move between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DutyState(StrEnum):
    """How a duty is done. docs/reference/supervision-states.md is held equal to this."""

    WAITING = "waiting"  # it is to run, and nobody has started it
    STARTING = "starting"  # it has a launch; its process may not be there yet, or not be ready
    READY = "ready"  # its process is at work
    STOPPING = "stopping"  # its process was told to end
    STOPPED = "stopped"  # it does not run, as was wished
    DOWN = "down"  # its process has died, the next start is due at a set time
    FAILED = "failed"  # its process has died too often before it was ready: somebody should look


class DutyMove(StrEnum):
    """What can happen to a duty. The value is the label of its arrow in the chart."""

    LAUNCH = "launched"
    READY = "shown ready"
    STOP = "told to stop"
    DIE = "died"
    GIVE_UP = "given up"
    END = "ended"
    MAKE_WAY = "ended for a new start"
    CANCEL = "not wanted"
    WANT = "wanted"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One move: from which states, to which."""

    sources: tuple[DutyState, ...]
    target: DutyState


_WAITING, _STARTING, _READY, _STOPPING, _STOPPED, _DOWN, _FAILED = DutyState

MOVES: dict[DutyMove, Arrow] = {
    DutyMove.LAUNCH: Arrow((_WAITING, _DOWN), _STARTING),
    DutyMove.READY: Arrow((_STARTING,), _READY),
    DutyMove.STOP: Arrow((_STARTING, _READY), _STOPPING),
    DutyMove.DIE: Arrow((_STARTING, _READY), _DOWN),
    DutyMove.GIVE_UP: Arrow((_DOWN,), _FAILED),
    DutyMove.END: Arrow((_STOPPING,), _STOPPED),
    DutyMove.MAKE_WAY: Arrow((_STOPPING,), _WAITING),
    DutyMove.CANCEL: Arrow((_WAITING, _DOWN, _FAILED), _STOPPED),
    DutyMove.WANT: Arrow((_STOPPED, _DOWN, _FAILED), _WAITING),
}

RUNNING = (*MOVES[DutyMove.STOP].sources, _STOPPING)  # they have a launch, and perhaps a process
