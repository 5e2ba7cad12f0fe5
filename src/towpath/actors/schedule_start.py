"""What a schedule starts, checked as far as it can be: the actor's code may be elsewhere, or not be written yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from towpath.actors.actor import Actor
from towpath.actors.definition import Definition, define, is_name
from towpath.actors.instance import MAIN
from towpath.actors.parts import Parts
from towpath.actors.starting import Start
from towpath.db import Transaction
from towpath.errors import BadName, BadState, BadValue
from towpath.queue.payload import check_name, to_json

UNCHANGED: Final = object()


@dataclass(frozen=True)
class ScheduledActor:
    """As much as is known of it here."""

    name: str
    definition: Definition | None = None
    states: tuple[str, ...] = ()  # as another process has seen them; none: nobody has


def checked_actor(
    parts: Parts, tx: Transaction, definitions: Mapping[str, Definition], actor: object
) -> ScheduledActor:
    """By its class, or by its name, under which nobody needs to know it yet. Raises `BadActor` or `BadName`."""
    if isinstance(actor, type) and issubclass(actor, Actor):
        definition = define(actor)
        return ScheduledActor(definition.name, definition)
    if not isinstance(actor, str) or not is_name(actor):
        raise BadName(f"{actor!r} is no actor, and no name of one: small letters, digits, '-', '_' and '.'")
    if actor in definitions:
        return ScheduledActor(actor, definitions[actor])
    shapes = {known.name: known.shape for known in parts.instances.actors(tx)}
    states = shapes.get(actor, {}).get("states", ())
    return ScheduledActor(actor, states=tuple(each["name"] for each in states))


def checked_start(actor: ScheduledActor, state: Any, payload: Any, max_bytes: int) -> tuple[str | None, Any]:
    """The name of the state, none for the first, and its fields. Raises `BadState`, `BadPayload` or `BadValue`."""
    if state is not None and not isinstance(state, str):
        if payload is not None:
            raise BadValue("a payload belongs to the name of a state; a state has its fields already")
        known = actor.definition
        start = Start.by_name(actor.name, state, MAIN) if known is None else Start.of(known, state, MAIN)
        state, payload = start.function, start.payload
    fields = {} if payload is None else payload
    to_json(fields, max_bytes)
    if actor.definition is not None:
        (actor.definition.first if state is None else actor.definition.kind(state)).read(fields)
    elif state is not None:
        check_name(state, "name of a state")
        if actor.states and state not in actor.states:
            raise BadState(f"{state!r} is no state of {actor.name}; its states: {', '.join(actor.states)}")
    return state, fields
