"""Actors: their classes, their instances, and what people do to them.

`ActorCode` has the actors whose code this process can import: those of the modules that the settings name. They are
imported once, when somebody first asks for actors. A module that cannot be imported is listed with the classes; it
neither keeps the server from starting nor hides other modules. A class whose code only another process has is known by
what that process has written down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from towpath.access.roles import Scope
from towpath.actors.graph.render import mermaid, svg
from towpath.actors.instance import Instance, Phase
from towpath.actors.registry import (
    BrokenModule,
    DiscoveredActor,
    KnownClass,
    found_in,
    known_actor,
    known_actors,
    new_classes,
    start_again,
)
from towpath.actors.service import Actors
from towpath.actors.turn import ActorStart
from towpath.errors import NotFailed
from towpath.operations.actors import (
    Classes,
    Started,
    StartedAgain,
    class_item,
    class_view,
    instance_shown,
    instance_view,
)
from towpath.operations.model import Item, NamedPage, Reason
from towpath.queue.payload import ACTORS
from towpath.web.auth import ActorKeeper, Reader, runtime_of
from towpath.web.changes import Maker, exactly
from towpath.web.failures import PREFIX, Limit

if TYPE_CHECKING:
    import pathlib


router = APIRouter(prefix=f"{PREFIX}/actors", tags=["actors"])

Actor = Annotated[str, Path(max_length=200, description="The name of a class.")]
InstanceName = Annotated[str, Path(max_length=200, description="Which instance; most actors have one, `main`.")]
HISTORY = 20
MOST_HISTORY = 1_000


@router.get("")
def instances(
    request: Request,
    principal: Reader,
    actor: Annotated[str | None, Query(max_length=200, description="Only of this class.")] = None,
    phase: Phase | None = None,
    limit: Limit = 100,
    after: Annotated[str, Query(max_length=400, description="Go on where a page ended: its `next`.")] = "",
) -> NamedPage[Item]:
    """Instances, by name."""
    runtime = runtime_of(request)
    begin = f"{ACTORS}{after}" if after else ""
    found = runtime.actors.instances(actor=actor, phase=phase, after=begin, limit=limit + 1)
    part = found[:limit]
    masks = runtime.desk.masks_for(principal.role)
    items = [instance_shown(each, masks) for each in part]
    return NamedPage(items=items, next=part[-1].name if len(found) > limit else None)


@router.get("/classes")
def classes(request: Request, principal: Reader) -> Classes:
    """All actors that are known: their states with a template of each, their schedules, how many run."""
    runtime = runtime_of(request)
    counts, schedules = runtime.actors.browser().counts(), runtime.actors.schedules.list()
    masks, may_start = runtime.desk.masks_for(principal.role), Scope.ACTOR_WRITE in principal.scopes
    items = [
        class_view(each, counts.get(each.name, {}), schedules, masks, may_start=may_start)
        for each in known_of(request).values()
    ]
    return Classes(items=items, broken=[each._asdict() for each in code_of(request).broken])


@router.get("/{actor}")
def show_class(request: Request, actor: Actor, principal: Reader) -> Item:
    """One class."""
    runtime = runtime_of(request)
    known = known_actor(known_of(request), actor)
    counts = runtime.actors.browser().counts().get(actor, {})
    schedules = runtime.actors.schedules.list(actor=actor)
    masks, may_start = runtime.desk.masks_for(principal.role), Scope.ACTOR_WRITE in principal.scopes
    return class_view(known, counts, schedules, masks, may_start=may_start)


@router.get("/{actor}/graph")
def graph(
    request: Request,
    actor: Actor,
    principal: Reader,
    instance: Annotated[str | None, Query(max_length=200, description="Light the state that this one is in.")] = None,
) -> Item:
    """The states of an actor and the moves between them, also as a chart for mermaid and as a picture (SVG)."""
    known = known_actor(known_of(request), actor)
    lit = None if instance is None else runtime_of(request).actors.instance(actor, instance).step
    return {
        "actor": known.name,
        "about": known.about,
        **known.shape,
        "lit": lit,
        "mermaid": mermaid(known.shape, lit),
        "svg": svg(known.name, known.about, known.shape, lit),
    }


@router.get("/{actor}/{instance:path}", response_model=Item)
def show(
    request: Request,
    actor: Actor,
    instance: InstanceName,
    principal: Reader,
    last: Annotated[int, Query(ge=0, le=MOST_HISTORY, description="How many messages of its history.")] = HISTORY,
) -> Response:
    """One instance: what it is and does, waits for and has called, what it did before, why it failed."""
    runtime = runtime_of(request)
    look = runtime.actors.look(actor, instance, last=last)
    if look is None:
        runtime.actors.instance(actor, instance)  # says that there is none
    known = known_of(request).get(actor)
    counts = runtime.actors.browser().counts().get(actor, {})
    described = None if known is None else {**class_item(known, counts), "shape": known.shape}
    masks = runtime.desk.masks_for(principal.role)
    return exactly({"actor": described, "instance": None if look is None else instance_view(look, known, masks)})


class ActorRequest:
    """Somebody who may change actors, at one request."""

    def __init__(self, request: Request, principal: ActorKeeper, maker: Maker) -> None:
        self.runtime = runtime_of(request)
        self.actors = self.runtime.actors
        self.code = code_of(request)
        self.masks = self.runtime.desk.masks_for(principal.role)
        self._maker = maker

    def start(self, what: str, actor: str, instance: str, why: str, choose: Callable[[], ActorStart]) -> Response:
        """The id of the run, and with which state it begins; nothing of that is known when the answer was lost."""

        def act() -> tuple[ActorStart, str]:
            start = choose()
            return start, self.actors.start_by_hand(start, self._maker.principal.name, why)

        def show(made: tuple[ActorStart, str] | None) -> Item:
            start, run = made or (None, None)
            return {"run": run, "actor": actor, "instance": instance, "state": start and start.function}

        return self._maker.make(what, f"{actor}:{instance}", act, show)

    def instance(self, what: str, actor: str, instance: str, act: Callable[..., Any], why: str) -> Response:
        """One instance, which is shown then."""
        return self._maker.make(
            what,
            f"{actor}:{instance}",
            lambda: act(actor, instance, **self._maker.by(why)),
            lambda _: instance_shown(self.actors.instance(actor, instance), self.masks),
        )

    def switch(self, actor: str, is_enabled: bool, why: str) -> Response:
        """A class; whether that was a change."""

        def act() -> bool:
            self.code.made_known(self.actors, actor)
            return self.actors.enable(actor, is_enabled, **self._maker.by(why))

        def show(has_changed: bool | None) -> Item:
            return {"actor": actor, "is_enabled": is_enabled, "has_changed": has_changed}

        return self._maker.make(f"{'enable' if is_enabled else 'disable'} actor", actor, act, show)


ActorOperator = Annotated[ActorRequest, Depends(ActorRequest)]


@router.post("/{actor}/enable", response_model=Item)
def enable(actor: Actor, sent: Reason, operator: ActorOperator) -> Response:
    """Let the instances of an actor run again."""
    return operator.switch(actor, True, sent.why)


@router.post("/{actor}/disable", response_model=Item)
def disable(actor: Actor, sent: Reason, operator: ActorOperator) -> Response:
    """Let no state of an actor begin, and refuse its starts. States that run finish; nothing is lost."""
    return operator.switch(actor, False, sent.why)


@router.post("/{actor}/{instance:path}/start", response_model=Item)
def start(actor: Actor, instance: InstanceName, sent: Started, operator: ActorOperator) -> Response:
    """Start an instance with a state and its fields, which are checked first; the answer names the run."""

    def choose() -> ActorStart:
        return operator.code.made_known(operator.actors, actor).start(instance, sent.state, sent.fields)

    return operator.start("start actor", actor, instance, sent.why, choose)


@router.post("/{actor}/{instance:path}/restart", response_model=Item)
def restart(actor: Actor, instance: InstanceName, sent: StartedAgain, operator: ActorOperator) -> Response:
    """Start an instance that has failed again: with the state in which it did, or with one that is named."""

    def choose() -> ActorStart:
        found = operator.actors.instance(actor, instance)
        if sent.state is None:
            known = operator.code.known(operator.actors).get(actor)
            return start_again(operator.actors.browser(), known, found)
        check_failed(found)
        return operator.code.made_known(operator.actors, actor).start(instance, sent.state, sent.fields or {})

    return operator.start("restart actor", actor, instance, sent.why, choose)


@router.post("/{actor}/{instance:path}/abort", response_model=Item)
def abort(actor: Actor, instance: InstanceName, sent: Reason, operator: ActorOperator) -> Response:
    """Let a run fail: at once, or when the state that runs is done. Its clean-up runs."""
    return operator.instance("abort actor", actor, instance, operator.actors.abort, sent.why)


@router.post("/{actor}/{instance:path}/wake", response_model=Item)
def wake(actor: Actor, instance: InstanceName, sent: Reason, operator: ActorOperator) -> Response:
    """Let an instance that sleeps go on now, and not when its time comes."""
    return operator.instance("wake actor", actor, instance, operator.actors.wake, sent.why)


class ActorCode:
    """Made once for an app."""

    def __init__(self, modules: Sequence[str], directory: pathlib.Path) -> None:
        self._modules = modules
        self._directory = directory
        self._lock = threading.Lock()
        self._found: tuple[dict[str, DiscoveredActor], list[BrokenModule]] | None = None

    def known(self, actors: Actors) -> dict[str, KnownClass]:
        """All actors that are known, by name."""
        return known_actors(actors.known(), self._read()[0])

    def made_known(self, actors: Actors, name: str) -> KnownClass:
        """One of them, which other processes know of from now on, too; raises `UnknownActor`."""
        found = self._read()[0]
        actors.register(*new_classes(actors.known(), found))
        return known_actor(known_actors(actors.known(), found), name)

    @property
    def broken(self) -> list[BrokenModule]:
        """Modules that cannot be imported, or have no actors."""
        return self._read()[1]

    def _read(self) -> tuple[dict[str, DiscoveredActor], list[BrokenModule]]:
        with self._lock:
            if self._found is None:
                self._found = found_in(self._modules, self._directory)
            return self._found


def code_of(request: Request) -> ActorCode:
    code: ActorCode = request.app.state.actor_code
    return code


def known_of(request: Request) -> dict[str, KnownClass]:
    """All actors that are known."""
    return code_of(request).known(runtime_of(request).actors)


def check_failed(found: Instance) -> None:
    """Raises `NotFailed`."""
    if found.phase is not Phase.FAILED:
        raise NotFailed(f"{found.name} is {found.phase}; only what has failed is started again")
