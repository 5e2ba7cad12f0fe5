"""Schedules: actors that are started by the clock."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from towpath.actors.registry import KnownClass, known_actor
from towpath.actors.schedules.model import Schedule
from towpath.operations.actors import ChangedSchedule, NewSchedule, schedule_shown
from towpath.operations.model import Item, Reason
from towpath.web.api.actors import known_of
from towpath.web.auth import ActorKeeper, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX

router = APIRouter(prefix=f"{PREFIX}/schedules", tags=["schedules"])

Name = Annotated[str, Path(max_length=200)]


class ScheduleList(BaseModel):
    """Schedules, by name."""

    items: list[Item]


@router.get("")
def schedules(
    request: Request, principal: Reader, actor: Annotated[str | None, Query(max_length=200)] = None
) -> ScheduleList:
    """When each is due next (`next_at`), and what came of its last run."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    return ScheduleList(items=[schedule_shown(each, masks) for each in runtime.actors.schedules.list(actor=actor)])


@router.get("/{schedule:path}")
def show(request: Request, schedule: Name, principal: Reader) -> Item:
    """One schedule."""
    runtime = runtime_of(request)
    return schedule_shown(runtime.actors.schedules.show(schedule), runtime.desk.masks_for(principal.role))


@router.post("", status_code=201, response_model=Item)
def add(request: Request, sent: NewSchedule, principal: ActorKeeper, maker: Maker) -> Response:
    """Start an actor by the clock. State and fields are checked now, rather than when it is due."""
    runtime = runtime_of(request)
    schedules, masks = runtime.actors.schedules, runtime.desk.masks_for(principal.role)

    def act() -> Schedule:
        known = known_actor(known_of(request), sent.actor)
        return schedules.add(
            sent.name,
            sent.actor,
            sent.when.rhythm(),
            **maker.by(sent.why),
            instance=sent.instance,
            state=sent.state,
            payload=_checked(known, sent.state, sent.fields),
            is_enabled=sent.is_enabled,
        )

    def show(made: Schedule | None) -> Item:
        return schedule_shown(made or schedules.show(sent.name), masks)

    return maker.make("add schedule", sent.name, act, show, status=201)


@router.post("/{schedule:path}/change", response_model=Item)
def change(request: Request, schedule: Name, sent: ChangedSchedule, principal: ActorKeeper, maker: Maker) -> Response:
    """Change when it is due, which instance it starts, or with which state and fields."""
    runtime = runtime_of(request)
    schedules, masks = runtime.actors.schedules, runtime.desk.masks_for(principal.role)

    def act() -> Schedule:
        before = schedules.show(schedule)
        given: dict[str, Any] = {}
        if sent.state is not None or sent.fields is not None:
            state = before.state if sent.state is None else sent.state
            known = known_of(request).get(before.actor)
            fields = sent.fields or {}
            given = {"state": state, "payload": fields if known is None else _checked(known, state, fields)}
        rhythm = None if sent.when is None else sent.when.rhythm()
        return schedules.change(schedule, **maker.by(sent.why), rhythm=rhythm, instance=sent.instance, **given)

    def show(made: Schedule | None) -> Item:
        return schedule_shown(made or schedules.show(schedule), masks)

    return maker.make("change schedule", schedule, act, show)


@router.post("/{schedule:path}/enable", response_model=Item)
def enable(request: Request, schedule: Name, sent: Reason, principal: ActorKeeper, maker: Maker) -> Response:
    """Let a schedule start its actor again. What was missed is not made up for."""
    return _switch(request, schedule, True, sent.why, principal, maker)


@router.post("/{schedule:path}/disable", response_model=Item)
def disable(request: Request, schedule: Name, sent: Reason, principal: ActorKeeper, maker: Maker) -> Response:
    """Let a schedule start nothing until it is enabled."""
    return _switch(request, schedule, False, sent.why, principal, maker)


@router.post("/{schedule:path}/delete", response_model=Item)
def delete(request: Request, schedule: Name, sent: Reason, principal: ActorKeeper, maker: Maker) -> Response:
    """Take a schedule away. A run that it has started goes on."""
    schedules = runtime_of(request).actors.schedules

    def act() -> None:
        schedules.remove(schedule, **maker.by(sent.why))

    return maker.make("delete schedule", schedule, act, lambda _: {"name": schedule})


def _switch(
    request: Request, schedule: str, is_enabled: bool, why: str, principal: ActorKeeper, maker: Maker
) -> Response:
    schedules = runtime_of(request).actors.schedules

    def act() -> bool:
        return schedules.enable(schedule, is_enabled, who=principal.name, why=why)

    def show(has_changed: bool | None) -> Item:
        return {"name": schedule, "is_enabled": is_enabled, "has_changed": has_changed}

    return maker.make(f"{'enable' if is_enabled else 'disable'} schedule", schedule, act, show)


def _checked(known: KnownClass, state: str | None, fields: dict[str, Any]) -> Any:
    return known.checked(known.state(state)["name"], fields)
