"""One instance of an actor: its row, its names, its phases and every move between them.

docs/reference/states.md shows `MOVES` as a chart; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from towpath.core.clock import to_datetime
from towpath.db.database import Row
from towpath.errors import BadName, NotRunning
from towpath.queue.payload import ACTORS, check_name

MAIN = "main"
REPLY = "//reply"
LONGEST_INSTANCE = 100


class Phase(StrEnum):
    """Where an instance is."""

    IDLE = "idle"  # known, and never started
    READY = "ready"  # its state may run, and nobody has it
    RUNNING = "running"  # a process has it
    SLEEPING = "sleeping"  # its state runs when its time comes
    WAITING = "waiting"  # its state runs when answers are there, or when it has waited long enough
    ENDED = "ended"  # done; may be started again
    FAILED = "failed"  # it could not go on, and somebody should look; may be started again


class PhaseMove(StrEnum):
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
class PhaseArrow:
    """One move: from which phases, to which."""

    sources: tuple[Phase, ...]
    target: Phase


_IDLE, _READY, _RUNNING, _SLEEPING, _WAITING, _ENDED, _FAILED = Phase


LIVE = (_READY, _RUNNING, _SLEEPING, _WAITING)


AT_REST = (_IDLE, _ENDED, _FAILED)


MOVES: dict[PhaseMove, PhaseArrow] = {
    PhaseMove.START: PhaseArrow(AT_REST, _READY),
    PhaseMove.CLAIM: PhaseArrow((_READY, _SLEEPING, _WAITING), _RUNNING),
    PhaseMove.GO_ON: PhaseArrow((_RUNNING,), _RUNNING),
    PhaseMove.SLEEP: PhaseArrow((_RUNNING,), _SLEEPING),
    PhaseMove.WAIT: PhaseArrow((_RUNNING,), _WAITING),
    PhaseMove.ANSWERED: PhaseArrow((_WAITING,), _READY),
    PhaseMove.WAKE: PhaseArrow((_SLEEPING,), _READY),
    PhaseMove.END: PhaseArrow((_RUNNING,), _ENDED),
    PhaseMove.FAIL: PhaseArrow((_RUNNING,), _FAILED),
    PhaseMove.YIELD: PhaseArrow((_RUNNING,), _READY),
    PhaseMove.ABORT: PhaseArrow((_READY, _SLEEPING, _WAITING), _READY),
    PhaseMove.REVIVE: PhaseArrow((_RUNNING,), _READY),
}


_PHASES = {phase.value: phase for phase in Phase}


class Instance(NamedTuple):
    """An instance as its row has it."""

    inbox: str
    actor: str
    instance: str
    phase: Phase
    step: str | None
    head_id: str | None
    last_id: str | None
    run_id: str | None
    owner: str | None
    due_us: int | None
    needs: int
    restarts: int
    reason: str | None
    abort: str | None
    parent: str | None
    is_tied: bool
    moved_us: int

    @property
    def name(self) -> str:
        return f"{self.actor}:{self.instance}"

    @property
    def head(self) -> str:
        """The id of the message that may run; raises `NotRunning` for one at rest."""
        if self.head_id is None:
            raise NotRunning(f"{self.name} is {self.phase}; it has nothing to run")
        return self.head_id

    @property
    def is_live(self) -> bool:
        return self.phase in LIVE

    @property
    def moved_at(self) -> datetime:
        return to_datetime(self.moved_us)

    @property
    def due_at(self) -> datetime | None:
        return None if self.due_us is None else to_datetime(self.due_us)

    @classmethod
    def from_row(cls, row: Row) -> Instance:
        *known, is_tied, moved_us = row
        known[3] = _PHASES[known[3]]
        return cls._make((*known, bool(is_tied), moved_us))


def inbox_of(actor: str, instance: str) -> str:
    """The inbox of an instance; raises `BadName` for a name that cannot be one."""
    check_name(instance, "name of an instance")
    if len(instance) > LONGEST_INSTANCE or "//" in instance:
        raise BadName(f"{instance!r} is no usable name of an instance: at most {LONGEST_INSTANCE} characters, no '//'")
    return f"{ACTORS}{actor}:{instance}"


def name_of(inbox: str) -> str:
    """How people call the instance of an inbox: `actor:instance`."""
    return inbox.removeprefix(ACTORS).removesuffix(REPLY)
