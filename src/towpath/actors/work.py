"""An instance in the hands of a host, and what came of its state."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.actors.definition import Definition
from towpath.actors.instance import Instance
from towpath.actors.planning import Planned
from towpath.actors.turn import Effect, Turn
from towpath.queue.message import Message
from towpath.queue.payload import new_id
from towpath.queue.state import MessageState


@dataclass(frozen=True, slots=True)
class Work:
    """A head that this process has claimed."""

    definition: Definition
    instance: Instance
    message: Message
    turn: Turn
    in_a_row: int = 0  # how many states before it ran here without a pause


@dataclass(frozen=True, slots=True)
class Done:
    """A state that has been run, or that could not be: how its message ends, and what comes next."""

    work: Work
    planned: Planned | None  # none: it was a terminal state, and the run is over
    state: MessageState = MessageState.OK
    reason: str | None = None
    effects: tuple[Effect, ...] = ()
    head_id: str = field(default_factory=new_id)  # of the next message: known before it is written, to find it again
