"""Where an instance is, and every move between. The chart in docs/reference/states.md is held equal to this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where an instance is."""

    IDLE = "idle"  # known, and never started
    READY = "ready"  # its state may run, and nobody has it
    RUNNING = "running"  # a process has it
    SLEEPING = "sleeping"  # its state runs when its time comes
    WAITING = "waiting"  # its state runs when answers are there, or when it has waited long enough
    ENDED = "ended"  # done; may be started again
    FAILED = "failed"  # it could not go on, and somebody should look; may be started again


class Move(StrEnum):
    """What can happen to an instance. The value is the label of its arrow in the chart."""

    START = "started"
    CLAIM = "claimed"
    GO_ON = "next state"
    SLEEP = "sleeps"
    WAIT = "waits"
    ANSWERED = "answered"
    WAKE = "woken"  # by a person, before its time
    END = "ended"
    FAIL = "failed"
    YIELD = "made way"  # disabled, or this process is stopping
    ABORT = "aborted"  # by a person or with its parent: it fails when its clean-up has run
    REVIVE = "owner died"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One move: from which phases, to which."""

    sources: tuple[Phase, ...]
    target: Phase


_IDLE, _READY, _RUNNING, _SLEEPING, _WAITING, _ENDED, _FAILED = Phase
LIVE = (_READY, _RUNNING, _SLEEPING, _WAITING)
AT_REST = (_IDLE, _ENDED, _FAILED)

MOVES: dict[Move, Arrow] = {
    Move.START: Arrow(AT_REST, _READY),
    Move.CLAIM: Arrow((_READY, _SLEEPING, _WAITING), _RUNNING),
    Move.GO_ON: Arrow((_RUNNING,), _RUNNING),
    Move.SLEEP: Arrow((_RUNNING,), _SLEEPING),
    Move.WAIT: Arrow((_RUNNING,), _WAITING),
    Move.ANSWERED: Arrow((_WAITING,), _READY),
    Move.WAKE: Arrow((_SLEEPING,), _READY),
    Move.END: Arrow((_RUNNING,), _ENDED),
    Move.FAIL: Arrow((_RUNNING,), _FAILED),
    Move.YIELD: Arrow((_RUNNING,), _READY),
    Move.ABORT: Arrow((_READY, _SLEEPING, _WAITING), _READY),
    Move.REVIVE: Arrow((_RUNNING,), _READY),
}
