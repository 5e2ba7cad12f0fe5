"""A start: the message that begins a run, to an instance that is made known by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from towpath.actors.actor import Actor
from towpath.actors.definition import Definition, define
from towpath.actors.instance import inbox_of
from towpath.actors.parts import Parts
from towpath.db import Transaction
from towpath.errors import BadState
from towpath.queue.outbox import Outbox
from towpath.queue.state import OnOwnerDeath

PARENT = "towpath.parent"
TIED = "towpath.tied"
ACTOR_INBOX_ATTEMPTS = 1_000_000  # nobody but a host counts them


@dataclass(frozen=True)
class Start:
    """Which actor is to run, from which state."""

    actor: str
    instance: str
    function: str
    payload: Any

    @property
    def inbox(self) -> str:
        return inbox_of(self.actor, self.instance)

    @classmethod
    def of(cls, actor: type[Actor] | Definition, state: Any, instance: str) -> Start:
        """Checked as far as it can be; without a state it is the first one, without fields."""
        definition = actor if isinstance(actor, Definition) else define(actor)
        if state is None:
            kind = definition.first
            kind.read({})
            return cls(definition.name, instance, kind.name, {})
        kind = definition.kind_of(state)
        return cls(definition.name, instance, kind.name, kind.write(state))

    @classmethod
    def by_name(cls, actor: str, state: Any, instance: str) -> Start:
        """Of an actor whose code is elsewhere: its own process checks what it is sent."""
        if state is None or isinstance(state, type):
            raise BadState(f"say with which state {actor} starts: its code is not here")
        return cls(actor, instance, type(state).__name__, TypeAdapter(type(state)).dump_python(state, mode="json"))


def send_start(
    parts: Parts,
    tx: Transaction,
    outbox: Outbox,
    start: Start,
    *,
    message_id: str,
    wants_answer: bool,
    headers: Mapping[str, Any] | None = None,
) -> None:
    """Make the instance known and send it its start."""
    # The inbox first: the janitor, who may be deleting both, lets go of it when it is done.
    parts.queue.inboxes.register(tx, start.inbox, OnOwnerDeath.AGAIN, ACTOR_INBOX_ATTEMPTS)
    parts.instances.register(tx, start.actor, start.instance)
    send = outbox.send if wants_answer else outbox.notice
    send(start.inbox, start.function, start.payload, tx=tx, message_id=message_id, headers=headers)
