"""One instance of an actor: as its row has it, and what it is called."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from towpath.actors.phase import LIVE, Phase
from towpath.clock import to_datetime
from towpath.db.database import Row
from towpath.errors import BadName, NotRunning
from towpath.queue.payload import ACTORS, check_name

MAIN = "main"
REPLY = "//reply"
LONGEST_INSTANCE = 100

_PHASES = {phase.value: phase for phase in Phase}


def inbox_of(actor: str, instance: str) -> str:
    """The inbox of an instance; raises `BadName` for a name that cannot be one."""
    check_name(instance, "name of an instance")
    if len(instance) > LONGEST_INSTANCE or "//" in instance:
        raise BadName(f"{instance!r} is no usable name of an instance: at most {LONGEST_INSTANCE} characters, no '//'")
    return f"{ACTORS}{actor}:{instance}"


def name_of(inbox: str) -> str:
    """How people call the instance of an inbox: `actor:instance`."""
    return inbox.removeprefix(ACTORS).removesuffix(REPLY)


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
