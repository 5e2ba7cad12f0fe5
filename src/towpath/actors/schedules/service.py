"""The schedules of one database (`runtime.actors.schedules`): add, change, enable, remove and show them.

What a schedule starts is checked as far as possible: the actor's code may be elsewhere, or not be written yet.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from towpath.actors.actor import Actor
from towpath.actors.definition import Definition, define, is_name
from towpath.actors.instance import MAIN, inbox_of
from towpath.actors.instance_store import ActorContext
from towpath.actors.schedules.model import Interval, Rhythm, Schedule, find_zone, next_after
from towpath.actors.schedules.scheduler import ScheduleStore
from towpath.actors.turn import ActorStart
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.errors import BadName, BadState, BadValue
from towpath.queue.payload import check_name, to_json

UNCHANGED: Final = object()


class Schedules:
    """Adds, changes and shows schedules. Every change leaves an event with who made it and why."""

    def __init__(self, parts: ActorContext, definitions: Mapping[str, Definition]) -> None:
        self._parts = parts
        self._definitions = definitions
        self._schedules = ScheduleStore(parts.database)

    def add(
        self,
        name: str,
        actor: type[Actor] | str,
        rhythm: Rhythm,
        *,
        who: str,
        why: str,
        instance: str = MAIN,
        state: Any = None,
        payload: Any = None,
        is_enabled: bool = True,
    ) -> Schedule:
        """Start an actor by the clock. `state` is a state, or the name of one with its fields as `payload`.

        Without a state it is the actor's first. Raises `ScheduleExists`, `BadName`, `BadValue`, `BadState`.
        """
        check_name(name, "name of a schedule")
        _check_rhythm(rhythm)

        def act(tx: Transaction) -> Schedule:
            known = self._actor(tx, actor)
            inbox_of(known.name, instance)
            step, fields = self._start(known, state, payload)
            now_us = self._parts.database.now()
            schedule = Schedule(name, known.name, instance, step, fields, rhythm, is_enabled, now_us, None)
            schedule = self._timed(schedule, now_us)
            self._schedules.insert(tx, schedule)
            self._record(tx, "added", schedule, who, why)
            return self._schedules.read(tx, name)

        return commit_by_hand(self._parts.database, act)

    def change(
        self,
        name: str,
        *,
        who: str,
        why: str,
        rhythm: Rhythm | None = None,
        instance: str | None = None,
        state: Any = UNCHANGED,
        payload: Any = UNCHANGED,
    ) -> Schedule:
        """Change what is given. `state=None` is the first one. Raises `UnknownSchedule` and what `add` raises."""
        if rhythm is not None:
            _check_rhythm(rhythm)

        def act(tx: Transaction) -> Schedule:
            found = self._schedules.lock(tx, name)
            changed = replace(
                found, rhythm=rhythm or found.rhythm, instance=found.instance if instance is None else instance
            )
            inbox_of(changed.actor, changed.instance)
            if state is not UNCHANGED or payload is not UNCHANGED:
                known = self._actor(tx, found.actor)
                given = found.state if state is UNCHANGED else state
                step, fields = self._start(known, given, None if payload is UNCHANGED else payload)
                changed = replace(changed, state=step, payload=fields)
            if rhythm is not None:
                changed = self._timed(changed, self._parts.database.now())
            self._schedules.change(tx, changed)
            self._record(tx, "changed", changed, who, why, before=_shown(found))
            return self._schedules.read(tx, name)

        return commit_by_hand(self._parts.database, act)

    def enable(self, name: str, is_enabled: bool, *, who: str, why: str) -> bool:
        """Let it run, or not; whether that was a change. What was missed in between is not made up for."""

        def act(tx: Transaction) -> bool:
            found = self._schedules.lock(tx, name)
            if found.is_enabled == is_enabled:
                return False
            switched = self._timed(replace(found, is_enabled=is_enabled), self._parts.database.now())
            self._schedules.change(tx, switched)
            self._record(tx, "enabled" if is_enabled else "disabled", switched, who, why)
            return True

        return commit_by_hand(self._parts.database, act)

    def remove(self, name: str, *, who: str, why: str) -> None:
        """Take it away; a run that it has started goes on."""

        def act(tx: Transaction) -> None:
            found = self._schedules.lock(tx, name)
            self._schedules.delete(tx, name)
            self._record(tx, "removed", found, who, why)

        commit_by_hand(self._parts.database, act)

    def list(self, *, actor: str | None = None) -> builtins.list[Schedule]:
        """All of them, or those of one actor, by name."""
        with self._parts.database.glance() as tx:
            return [*self._schedules.list(tx, actor)]

    def show(self, name: str) -> Schedule:
        """One of them; raises `UnknownSchedule`."""
        with self._parts.database.glance() as tx:
            return self._schedules.read(tx, name)

    def _actor(self, tx: Transaction, actor: object) -> ScheduledActor:
        """By its class, or by its name, under which nobody needs to know it yet. Raises `BadActor` or `BadName`."""
        if isinstance(actor, type) and issubclass(actor, Actor):
            definition = define(actor)
            return ScheduledActor(definition.name, definition)
        if not isinstance(actor, str) or not is_name(actor):
            raise BadName(f"{actor!r} is no actor, and no name of one: small letters, digits, '-', '_' and '.'")
        if actor in self._definitions:
            return ScheduledActor(actor, self._definitions[actor])
        shapes = {known.name: known.shape for known in self._parts.instances.actors(tx)}
        states = shapes.get(actor, {}).get("states", ())
        return ScheduledActor(actor, states=tuple(each["name"] for each in states))

    def _start(self, actor: ScheduledActor, state: Any, payload: Any) -> tuple[str | None, Any]:
        """The name of the state, None for the first, and its fields. Raises `BadState`, `BadPayload` or `BadValue`."""
        known = actor.definition
        if state is not None and not isinstance(state, str):
            if payload is not None:
                raise BadValue("a payload belongs to the name of a state; a state has its fields already")
            start = ActorStart.by_name(actor.name, state, MAIN) if known is None else ActorStart.of(known, state, MAIN)
            state, payload = start.function, start.payload
        fields = {} if payload is None else payload
        to_json(fields, self._parts.queue.settings.max_payload_bytes)
        if known is not None:
            (known.first if state is None else known.kind(state)).read(fields)
        elif state is not None:
            check_name(state, "name of a state")
            if actor.states and state not in actor.states:
                raise BadState(f"{state!r} is no state of {actor.name}; its states: {', '.join(actor.states)}")
        return state, fields

    def _timed(self, schedule: Schedule, now_us: int) -> Schedule:
        return replace(schedule, next_us=next_after(schedule, now_us) if schedule.is_enabled else None)

    def _record(
        self, tx: Transaction, what: str, schedule: Schedule, who: str, why: str, before: dict[str, Any] | None = None
    ) -> None:
        data = {"what": what, **_shown(schedule)} | ({} if before is None else {"before": before})
        kind = EventKind.SCHEDULE_CHANGED_BY_HAND
        self._parts.event_log.record(tx, Event(kind, schedule.name, check_who(who), check_why(why), data))


@dataclass(frozen=True)
class ScheduledActor:
    """The actor of a schedule, as far as it is known here."""

    name: str
    definition: Definition | None = None
    states: tuple[str, ...] = ()  # as another process has recorded them; empty: no process has


def _check_rhythm(rhythm: Rhythm) -> None:
    if not isinstance(rhythm, Rhythm):
        raise BadValue(f"{rhythm!r} says not when; use Interval(seconds), Daily(hour) or Window(from_hour, to_hour)")
    if not isinstance(rhythm, Interval):
        find_zone(rhythm.zone)


def _shown(schedule: Schedule) -> dict[str, Any]:
    return {
        "actor": schedule.actor,
        "instance": schedule.instance,
        "state": schedule.state,
        "payload": schedule.payload,
        "when": str(schedule.rhythm),
        "is_enabled": schedule.is_enabled,
    }
