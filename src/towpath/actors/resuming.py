"""What becomes of an instance whose process died in its state. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from towpath.actors.definition import Definition
from towpath.actors.instance import Instance
from towpath.actors.planning import TIMED_OUT, Instead, Planned, plan_failure, plan_otherwise
from towpath.actors.state import Resume
from towpath.errors import BadState
from towpath.queue.message import Message
from towpath.queue.state import TERMINAL, MessageState

MOST_DEATHS = 5


@dataclass(frozen=True, slots=True)
class Again:
    """The same message runs again."""


def resume(definition: Definition, instance: Instance, head: Message | None, start: Message | None) -> Again | Instead:
    """What the state declares. `start` is the message that the run began with, if it is still there."""
    if head is None or head.state in TERMINAL:
        reason = "its message was deleted" if head is None else f"its message is {head.state}: {head.reason}"
        return Instead(MessageState.DEAD, reason, plan_failure(reason))
    if instance.abort is not None:
        return Instead(MessageState.DEAD, instance.abort, plan_failure(instance.abort))
    if instance.needs:  # it was claimed because its answers did not come in time, and its own code has not run
        return Instead(MessageState.OK, TIMED_OUT, plan_otherwise(head))
    died = f"its process {instance.owner} died in {head.function}"
    try:
        policy = definition.kind(head.function).resume
    except BadState as error:
        return _failed(f"{died}, and {error}")
    if head.attempts >= MOST_DEATHS:
        return _failed(f"{died}, which was the {MOST_DEATHS}th time")
    match policy:
        case Resume.RETRY:
            return Again()
        case Resume.FAIL:
            return _failed(f"{died}, and nobody has said that it may run again; look at what it did, then start it")
        case Resume.RESTART:
            return _restarted(died, instance.restarts + 1, start)
    assert_never(policy)


def _restarted(died: str, restarts: int, start: Message | None) -> Instead:
    if start is None:
        return _failed(f"{died}, and it cannot begin anew: the message that started it was deleted")
    if restarts >= MOST_DEATHS:
        return _failed(f"{died}; it has begun anew {MOST_DEATHS - 1} times")
    planned = Planned(start.function, start.payload_json)
    return Instead(MessageState.DEAD, f"{died}; it begins anew", planned, restarts)


def _failed(reason: str) -> Instead:
    return Instead(MessageState.ERR, reason, plan_failure(reason))
