"""Schedules: workflows that are started by the clock."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from towpath.actors.instance import MAIN
from towpath.actors.registry import KnownClass, known_actor
from towpath.actors.schedules.model import Daily, Interval, Rhythm, Since, Window
from towpath.desk.masks import MASK
from towpath.errors import BadValue
from towpath.operations.actors import When
from towpath.queue.payload import from_json
from towpath.web.api.actors import known_of
from towpath.web.auth import ActorKeeper, FormData, Reader, runtime_of
from towpath.web.console.layout.action import Act, PageAction
from towpath.web.console.layout.filters import link
from towpath.web.console.layout.lists import events_of, events_seen
from towpath.web.console.layout.page import page

router = APIRouter(prefix="/workflows/schedules", include_in_schema=False)

MOST_EVENTS = 20


@router.get("")
def schedules(request: Request, principal: Reader) -> Response:
    """When each is due next, and what came of its last run."""
    runtime = runtime_of(request)
    return page(request, "schedules.html", schedules=runtime.actors.schedules.list())


@router.post("")
def add(act: Act, principal: ActorKeeper) -> Response:
    """Start an actor by the clock. State and fields are checked now, rather than when it is due."""
    form = act.form
    name, actor, state = form.text("name"), form.text("actor"), form.maybe("state")

    def do() -> object:
        known = known_actor(known_of(act.request), actor)
        return act.runtime.actors.schedules.add(
            name,
            actor,
            _rhythm(form),
            **act.by,
            instance=form.text("instance") or MAIN,
            state=state,
            payload=_checked(known, state, form),
        )

    return act.do("add schedule", name, do, f"{name} is set", address_of(name))


@router.get("/{schedule:path}")
def show(request: Request, schedule: str, principal: Reader) -> Response:
    """One schedule."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = runtime.actors.schedules.show(schedule)
    return page(
        request,
        "schedule.html",
        schedule=found,
        known=known_of(request).get(found.actor),
        fields=MASK if masks else json.dumps(found.payload, indent=2, ensure_ascii=False),
        is_masked=bool(masks),
        when=_when(found.rhythm),
        events=events_seen(events_of(runtime, found.name, MOST_EVENTS), masks),
    )


@router.post("/{schedule:path}/change")
def change(schedule: str, act: Act, principal: ActorKeeper) -> Response:
    """Change when it is due, which instance it starts, or with which state and fields."""
    form, all_ = act.form, act.runtime.actors.schedules

    def do() -> object:
        before = all_.show(schedule)
        given: dict[str, Any] = {}
        if form.text("fields"):
            state = form.maybe("state") or before.state
            known = known_of(act.request).get(before.actor)
            given = {"state": state, "payload": _fields(form) if known is None else _checked(known, state, form)}
        return all_.change(
            schedule,
            **act.by,
            rhythm=_rhythm(form),
            instance=form.maybe("instance"),
            **given,
        )

    return act.do("change schedule", schedule, do, f"{schedule} is changed", address_of(schedule))


@router.post("/{schedule:path}/enable")
def enable(schedule: str, act: Act, principal: ActorKeeper) -> Response:
    """Let a schedule start its actor again. What was missed is not made up for."""
    return _switch(act, schedule, True)


@router.post("/{schedule:path}/disable")
def disable(schedule: str, act: Act, principal: ActorKeeper) -> Response:
    """Let a schedule start nothing until it is enabled."""
    return _switch(act, schedule, False)


@router.post("/{schedule:path}/delete")
def delete(schedule: str, act: Act, principal: ActorKeeper) -> Response:
    """Take a schedule away. A run that it has started goes on."""
    return act.do(
        "delete schedule",
        schedule,
        lambda: act.runtime.actors.schedules.remove(schedule, **act.by),
        f"{schedule} is gone",
        "/workflows/schedules",
    )


def address_of(schedule: str) -> str:
    return f"/workflows/schedules/{link(schedule)}"


def _switch(act: PageAction, schedule: str, is_enabled: bool) -> Response:
    what = "enabled" if is_enabled else "disabled"
    return act.do(
        f"{what[:-1]} schedule",
        schedule,
        lambda: act.runtime.actors.schedules.enable(schedule, is_enabled, **act.by),
        f"{schedule} is {what}",
        address_of(schedule),
    )


def _rhythm(form: FormData) -> Rhythm:
    """When it is due; raises `BadValue`."""
    how = form.one("how")
    try:
        return When(
            every_s=form.number("every_s") if how == "every" else None,
            since=_since(form) if how == "every" else None,
            daily=form.maybe("daily") if how == "daily" else None,
            window=form.maybe("window") if how == "window" else None,
            zone=None if how == "every" else form.maybe("zone"),
        ).rhythm()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = first["msg"].removeprefix("Value error, ")
        raise BadValue(f"when: {where}: {told}" if where else f"when: {told}") from None


def _since(form: FormData) -> Since:
    return Since.RUN if form.one("since") == Since.RUN else Since.MADE


def _when(rhythm: Rhythm) -> dict[str, str]:
    """A rhythm as a form has it."""
    match rhythm:
        case Interval(every_s, since):
            return {"how": "every", "every_s": f"{every_s:g}", "since": since}
        case Daily(hour, minute, zone):
            return {"how": "daily", "daily": f"{hour:02}:{minute:02}", "zone": zone}
        case Window(first, last, zone):
            return {"how": "window", "window": f"{first}-{last}", "zone": zone}


def _checked(known: KnownClass, state: str | None, form: FormData) -> Any:
    return known.checked(known.state(state)["name"], _fields(form))


def _fields(form: FormData) -> Any:
    return from_json(form.lines("fields") or "{}", "state")
