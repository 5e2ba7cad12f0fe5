"""Actors and schedules: classes and instances as the command line and the API show them, and what is asked of them.

Fields, payloads and reasons of actors quote records, and nobody can say where in them a masked field is. So whoever may
not see all fields of some flow's records sees none of them. The words of an abort are a person's own, and stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, model_validator

from towpath.actors.engine.plan import NEVER_US
from towpath.actors.instance import MAIN, Phase, name_of
from towpath.actors.schedules.model import LONGEST_S, SHORTEST_S, Daily, Interval, Rhythm, Since, Window
from towpath.core.exact_json import Exact
from towpath.desk.masks import MASK
from towpath.operations.model import Item, RequestBody, Why
from towpath.operations.queue import event_item, event_shown, hidden, message_item, reason_hidden

if TYPE_CHECKING:
    from towpath.actors.browser import InstanceView
    from towpath.actors.instance import Instance
    from towpath.actors.registry import KnownClass
    from towpath.actors.schedules.model import Schedule
    from towpath.desk.masks import Masks


Name = Annotated[str, Field(min_length=1, max_length=200)]
State = Annotated[str | None, Field(min_length=1, max_length=200, description="Without it: the actor's first.")]
Fields = Annotated[
    dict[str, Any],
    Field(default_factory=dict, description="The fields of the state; its template says which it has."),
]


class Classes(BaseModel):
    """Actors, and the modules of the setting `actors.modules` whose actors are not known, each with the reason."""

    items: list[Item]
    broken: list[Item]


class Started(RequestBody):
    """With which state an instance is to begin."""

    state: State = None
    fields: Fields
    why: Why


class StartedAgain(RequestBody):
    """From which state a run that has failed is to go on."""

    state: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="Without it: the one that failed, with the fields it had."),
    ] = None
    fields: Annotated[dict[str, Any] | None, Field(description="The fields of the state that is named.")] = None
    why: Why

    @model_validator(mode="after")
    def _fits(self) -> StartedAgain:
        if self.state is None and self.fields is not None:
            raise ValueError("fields go with a state; without one, those of the run that failed are taken")
        return self


class When(RequestBody):
    """When a schedule is due: one of `every_s`, `daily` and `window`."""

    every_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S, description="Every so many seconds.")
    since: Since | None = Field(None, description="With `every_s`: counted from when it was made, or its last run.")
    daily: str | None = Field(None, pattern=r"^[0-9]{1,2}:[0-9]{2}$", description="Every day at this time: 03:30.")
    window: str | None = Field(None, pattern=r"^[0-9]{1,2}-[0-9]{1,2}$", description="Once between hours: 22-6.")
    zone: str | None = Field(None, min_length=1, max_length=100, description="Whose clock; UTC if not given.")

    @model_validator(mode="after")
    def _says_one(self) -> When:
        if sum(each is not None for each in (self.every_s, self.daily, self.window)) != 1:
            raise ValueError("give one of every_s, daily and window")
        if self.since is not None and self.every_s is None:
            raise ValueError("since goes with every_s")
        if self.zone is not None and self.every_s is not None:
            raise ValueError("zone goes with daily or window")
        return self

    def rhythm(self) -> Rhythm:
        """Raises `BadValue` for hours and zones that there are not."""
        zone = self.zone or "UTC"
        if self.daily is not None:
            hour, minute = map(int, self.daily.split(":"))
            return Daily(hour, minute, zone)
        if self.window is not None:
            first, last = map(int, self.window.split("-"))
            return Window(first, last, zone)
        return Interval(self.every_s or 0.0, self.since or Since.MADE)


class NewSchedule(RequestBody):
    """A schedule."""

    name: Name
    actor: Name
    instance: Name = MAIN
    when: When
    state: State = None
    fields: Fields
    is_enabled: bool = Field(True, description="Otherwise it rests until it is enabled.")
    why: Why


class ChangedSchedule(RequestBody):
    """What is to be other than before. A new state comes with its fields."""

    when: When | None = None
    instance: Name | None = None
    state: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    fields: dict[str, Any] | None = None
    why: Why

    @model_validator(mode="after")
    def _says_something(self) -> ChangedSchedule:
        if not any(each is not None for each in (self.when, self.instance, self.state, self.fields)):
            raise ValueError("say what to change: when, instance, state or fields")
        return self


def class_view(
    known: KnownClass, counts: Mapping[Phase, int], schedules: Iterable[Schedule], masks: Masks, *, may_start: bool
) -> Item:
    """A class with its states and schedules. A start of one that is disabled would be refused."""
    return {
        **class_item(known, counts),
        "shape": known.shape,
        "schedules": [schedule_shown(each, masks) for each in schedules if each.actor == known.name],
        "may_start": may_start and known.is_enabled,
    }


def instance_view(look: InstanceView, known: KnownClass | None, masks: Masks) -> Item:
    if not masks:
        return {**look_item(look, known, Exact), "is_masked": False}
    item = look_item(look, known, hidden)
    parts = {name: [reason_hidden(each) for each in item[name]] for name in ("children", "history")}
    events = [event_shown(each, masks) for each in look.events]
    return {**reason_hidden(item), **parts, "events": events, "is_masked": True}


def instance_shown(instance: Instance, masks: Masks) -> Item:
    return reason_hidden(instance_item(instance)) if masks else instance_item(instance)


def schedule_shown(schedule: Schedule, masks: Masks) -> Item:
    item = schedule_item(schedule)
    return {**reason_hidden(item), "payload": MASK} if masks else item


def class_item(known: KnownClass, counts: Mapping[Phase, int]) -> Item:
    """A class, with how many of its instances are in which phase."""
    return {
        "name": known.name,
        "about": known.about,
        "is_enabled": known.is_enabled,
        "is_here": known.definition is not None,
        "instances": {phase: counts.get(phase, 0) for phase in Phase},
    }


def instance_item(instance: Instance) -> Item:
    return {
        "name": instance.name,
        "actor": instance.actor,
        "instance": instance.instance,
        "phase": instance.phase,
        "state": instance.step,
        "since": instance.moved_at,
        "due_at": due_at(instance),
        "owner": instance.owner,
        "reason": instance.reason,
        "abort": instance.abort,
        "run_id": instance.run_id,
        "head_id": instance.head_id,
        "parent": parent_of(instance),
        "is_tied": instance.is_tied,
        "restarts": instance.restarts,
    }


def look_item(look: InstanceView, known: KnownClass | None, read: Callable[[str], Any] = json.loads) -> Item:
    """An instance with what is around it; `read` is given the JSON text of fields, payloads and headers."""
    return {
        **instance_item(look.instance),
        "fields": None if look.head is None else read(look.head.payload_json),
        "resume": resume_of(look, known),
        "failed_in": None if look.failed is None else {"state": look.failed.function, "message": look.failed.id},
        "waits_for": [
            {"id": each.id, "is_answered": each.is_answered, "inbox": each.inbox, "state": each.state}
            for each in look.questions
        ],
        "children": [instance_item(each) for each in look.children],
        "history": [message_item(each, read) for each in look.history],
        "events": [event_item(each) for each in look.events],
    }


def resume_of(look: InstanceView, known: KnownClass | None) -> str | None:
    """What becomes of it if its process dies, as the state that it is in declares."""
    if known is None or not look.instance.is_live:
        return None
    return next((str(each["resume"]) for each in known.shape["states"] if each["name"] == look.instance.step), None)


def due_at(instance: Instance) -> datetime | None:
    """When it is due by the clock; who waits without a limit never is."""
    return None if instance.due_us is None or instance.due_us >= NEVER_US else instance.due_at


def parent_of(instance: Instance) -> str | None:
    return None if instance.parent is None else name_of(instance.parent)


def schedule_item(schedule: Schedule) -> Item:
    return {
        "name": schedule.name,
        "actor": schedule.actor,
        "instance": schedule.instance,
        "state": schedule.state,
        "payload": schedule.payload,
        "when": str(schedule.rhythm),
        "is_enabled": schedule.is_enabled,
        "made_at": schedule.made_at,
        "next_at": schedule.next_at,
        "last_at": schedule.last_at,
        "last_run": schedule.last_run,
        "outcome": schedule.outcome,
        "reason": schedule.reason,
        "skipped": schedule.skipped,
        "skip_reason": schedule.skip_reason,
        "warning": schedule.warning,
    }
