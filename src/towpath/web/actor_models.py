"""What is asked of actors and schedules, as it is sent."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from towpath.actors.instance import MAIN
from towpath.actors.schedule_rhythm import LONGEST_S, SHORTEST_S, Daily, Interval, Rhythm, Since, Window
from towpath.web.desk_items import Item
from towpath.web.model import Sent, Why

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


class Started(Sent):
    """With which state an instance is to begin."""

    state: State = None
    fields: Fields
    why: Why


class StartedAgain(Sent):
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


class When(Sent):
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


class NewSchedule(Sent):
    """A schedule."""

    name: Name
    actor: Name
    instance: Name = MAIN
    when: When
    state: State = None
    fields: Fields
    is_enabled: bool = Field(True, description="Otherwise it rests until it is enabled.")
    why: Why


class ChangedSchedule(Sent):
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
