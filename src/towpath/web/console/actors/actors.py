"""Workflows and actors: what a person can start, with a form; instances with their graph, history and questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from towpath.actors.browser import SpawnedProgress, progress, runs_of
from towpath.actors.graph.render import RESUMES, svg
from towpath.actors.instance import LIVE, MAIN, REPLY, Instance, Phase, inbox_of
from towpath.actors.registry import KnownClass, known_actor, start_again
from towpath.actors.schedules.model import Schedule
from towpath.actors.spawner.spawner import Attend, Launch, Watch
from towpath.actors.spawner.store import spawned_of
from towpath.actors.turn import ActorStart
from towpath.core.events import EventKind
from towpath.core.exact_json import indented
from towpath.db.event_log import StoredEvent
from towpath.desk.masks import MASK
from towpath.errors import BadPayload, BadState, BadValue, UnknownActor, UnknownMessage
from towpath.operations.actors import due_at, parent_of, resume_of
from towpath.queue.model import Message
from towpath.queue.payload import ACTORS, from_json
from towpath.web.api.actors import check_failed, code_of, known_of
from towpath.web.auth import ActorKeeper, Reader, runtime_of
from towpath.web.console.actors.state_form import FormField, fields_of, filled, grouped, read_form
from towpath.web.console.layout.action import Act, PageAction
from towpath.web.console.layout.lists import chosen, events_seen, instances_seen
from towpath.web.console.layout.page import page

if TYPE_CHECKING:
    from towpath.actors.browser import InstanceView, OpenRequest
    from towpath.runtime import Runtime


workflow_router = APIRouter(prefix="/workflows", include_in_schema=False)
router = APIRouter(prefix="/actors", include_in_schema=False)

ROWS = 100
HISTORY = 50
MOST_QUESTIONS = 20
MOST_SHOWN = 50
MOST_MESSAGES = 500  # in which runs are looked for
MOST_STARTS = 100

_SPAWNER = {each.__name__ for each in (Watch, Launch, Attend)}


@workflow_router.get("")
def workflows(request: Request, principal: Reader) -> Response:
    """All that can be started: what it does, how many run, when it is due."""
    runtime = runtime_of(request)
    known = list(known_of(request).values())
    schedules = runtime.actors.schedules.list()
    return page(
        request,
        "workflows.html",
        workflows=[each for each in known if not is_spawner(each)],
        spawners=[each for each in known if is_spawner(each)],
        counts=runtime.actors.browser().counts(),
        next_of={each.name: _next(schedules, each.name) for each in known},
        progress=progress(runtime.database),
        broken=code_of(request).broken,
        phases=(*LIVE, Phase.FAILED),
    )


@workflow_router.get("/{actor}")
def workflow(request: Request, actor: str, principal: Reader) -> Response:
    """One of them: its graph, its form, who runs, its schedules and runs."""
    return _shown(request, actor, principal)


@workflow_router.post("/{actor}/start")
def start(actor: str, act: Act, principal: ActorKeeper) -> Response:
    """Start an instance with a state and what was filled in. A form that does not fit is shown again."""
    form, actors, code = act.form, act.runtime.actors, code_of(act.request)
    instance = form.text("instance") or MAIN

    def do() -> str:
        known = code.made_known(actors, actor)
        state = known.state(form.maybe("state"))["name"]
        fields = read_form(fields_of(known, state), form)
        return actors.start_by_hand(known.start(instance, state, fields), principal.name, act.why)

    try:
        return act.do("start actor", f"{actor}:{instance}", do, "it is started", instance_page(actor, instance))
    except (BadPayload, BadState, BadValue) as error:
        return _shown(act.request, actor, principal, act, str(error))


@workflow_router.post("/{actor}/again")
def again(actor: str, act: Act, principal: ActorKeeper) -> Response:
    """Start the same once more: an earlier run's first state, with the fields that it had."""
    actors, found = act.runtime.actors, _start_of(act.runtime, actor, act.form.text("run"))
    if found is None:
        raise BadValue("say which run: the message that has started it")
    instance = found.inbox.removeprefix(f"{ACTORS}{actor}:")

    def do() -> str:
        known = code_of(act.request).made_known(actors, actor)
        return actors.start_by_hand(known.start(instance, found.function, found.payload), principal.name, act.why)

    return act.do("start actor", f"{actor}:{instance}", do, "it is started again", instance_page(actor, instance))


@workflow_router.post("/{actor}/enable")
def enable(actor: str, act: Act, principal: ActorKeeper) -> Response:
    """Let the instances of an actor run again."""
    return _switch(act, actor, True)


@workflow_router.post("/{actor}/disable")
def disable(actor: str, act: Act, principal: ActorKeeper) -> Response:
    """Let no state of an actor begin, and refuse its starts."""
    return _switch(act, actor, False)


@router.get("")
def instances(request: Request, principal: Reader) -> Response:
    """Instances by name, with the state that each is in."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    given = chosen(request, "actor", "phase", "after")
    after = f"{ACTORS}{given['after']}" if "after" in given else ""
    phase = _phase(given["phase"]) if "phase" in given else None
    found = runtime.actors.instances(actor=given.get("actor"), phase=phase, after=after, limit=ROWS + 1)
    return page(
        request,
        "actors.html",
        instances=instances_seen(found[:ROWS], masks),
        next=found[ROWS - 1].name if len(found) > ROWS else None,
        names=[each.name for each in runtime.actors.known()],
        phases=list(Phase),
        counts=runtime.actors.browser().counts(),
        due_at=due_at,
        progress=of_waiting(progress(runtime.database)),
    )


@router.get("/{actor}/{instance:path}")
def instance(request: Request, actor: str, instance: str, principal: Reader) -> Response:
    """One instance: what it is and does, waits for and has called, what it did before, why it failed."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    look = runtime.actors.look(actor, instance, last=HISTORY)
    if look is None:
        raise UnknownActor(f"there is no instance {actor}:{instance}; /actors shows those that there are")
    known = known_of(request).get(actor)
    state = look.failed or look.head
    return page(
        request,
        "actor.html",
        actor=actor,
        name=instance,
        it=instances_seen([look.instance], masks)[0],
        look=look,
        state=state,
        fields=None if state is None else MASK if masks else indented(state.payload_json),
        trace=None if masks or look.failed is None else look.failed.reason,
        known=known,
        graph=None if known is None else drawn(known, look.instance.step),
        children=instances_seen(look.children, masks),
        events=events_seen(look.events, masks),
        questions=_questions(runtime, look),
        progress=of_waiting(progress(runtime.database)).get(look.instance.inbox, []),
        spawned=spawned_of(runtime.database, actor, instance),
        due=due_at(look.instance),
        parent=parent_of(look.instance),
        if_it_dies=RESUMES.get(resume_of(look, known) or ""),
        is_masked=bool(masks),
        page_of=_page_of,
    )


@router.post("/{actor}/{instance:path}/abort")
def abort(actor: str, instance: str, act: Act, principal: ActorKeeper) -> Response:
    """Let a run fail: at once, or when the state that runs is done. Its clean-up runs."""
    return act.do(
        "abort actor",
        f"{actor}:{instance}",
        lambda: act.runtime.actors.abort(actor, instance, **act.by),
        "it is to end: its clean-up runs, then it counts as failed",
        instance_page(actor, instance),
    )


@router.post("/{actor}/{instance:path}/wake")
def wake(actor: str, instance: str, act: Act, principal: ActorKeeper) -> Response:
    """Let an instance that sleeps go on now, and not when its time comes."""
    return act.do(
        "wake actor",
        f"{actor}:{instance}",
        lambda: act.runtime.actors.wake(actor, instance, **act.by),
        "it goes on now",
        instance_page(actor, instance),
    )


@router.post("/{actor}/{instance:path}/restart")
def restart(actor: str, instance: str, act: Act, principal: ActorKeeper) -> Response:
    """Start an instance that has failed again: where it failed, or with a state and fields that are given."""
    actors, code, form = act.runtime.actors, code_of(act.request), act.form

    def choose() -> ActorStart:
        found = actors.instance(actor, instance)
        if not form.text("fields"):
            return start_again(actors.browser(), code.known(actors).get(actor), found)
        check_failed(found)
        fields = from_json(form.lines("fields"), "state")
        return code.made_known(actors, actor).start(instance, form.maybe("state"), fields)

    return act.do(
        "restart actor",
        f"{actor}:{instance}",
        lambda: actors.start_by_hand(choose(), principal.name, act.why),
        "it is started again",
        instance_page(actor, instance),
    )


def is_spawner(known: KnownClass) -> bool:
    """Whether it runs processes for others and is started once, rather than for each piece of work."""
    return {each["name"] for each in known.shape["states"]} >= _SPAWNER


def instance_page(actor: str, instance: str) -> str:
    return f"/actors/{quote(actor, safe='')}/{quote(instance, safe='')}"


def drawn(known: KnownClass, lit: str | None = None) -> Markup:
    """Its graph. All texts in it are escaped where it is drawn."""
    return Markup(svg(known.name, known.about, known.shape, lit, has_style=False))  # noqa: S704 - see above


def of_waiting(found: Iterable[SpawnedProgress]) -> Mapping[str, list[SpawnedProgress]]:
    """By the inbox of the instance that waits for it."""
    sorted_: dict[str, list[SpawnedProgress]] = {}
    for each in found:
        sorted_.setdefault(each.waiting or each.spawner, []).append(each)
    return sorted_


def _switch(act: PageAction, actor: str, is_enabled: bool) -> Response:
    actors = act.runtime.actors

    def do() -> bool:
        code_of(act.request).made_known(actors, actor)
        return actors.enable(actor, is_enabled, **act.by)

    what = "enabled" if is_enabled else "disabled"

    def said(has_changed: bool) -> str:
        return f"{actor} is {what}" if has_changed else f"{actor} was {what} before"

    return act.do(f"{what[:-1]} actor", actor, do, said)


def _shown(
    request: Request, actor: str, principal: Reader, refused: PageAction | None = None, wrong: str = ""
) -> Response:
    """The page; with a form that was refused, as it was filled in."""
    runtime, asked = runtime_of(request), request.query_params
    masks = runtime.desk.masks_for(principal.role)
    known = known_actor(known_of(request), actor)
    live = [each for phase in LIVE for each in runtime.actors.instances(actor=actor, phase=phase, limit=MOST_SHOWN)]
    at_rest = runtime.actors.instances(actor=actor, limit=MOST_SHOWN)
    instance = refused.form.text("instance") if refused else asked.get("instance") or _usual(at_rest)
    state = known.state((refused.form.maybe("state") if refused else asked.get("state")) or None)["name"]
    fields = _fields(known, state, refused)
    history = runtime.actors.history(actor, instance, limit=MOST_MESSAGES)
    runs = runs_of(history)[:MOST_SHOWN]
    return page(
        request,
        "workflow.html",
        status=422 if refused else 200,
        known=known,
        graph=drawn(known),
        states=[each for each in known.shape["states"] if not each["is_terminal"]],
        chosen=known.state(state),
        groups_of_fields=grouped(fields),
        whole=refused.form.lines("fields") if refused else "",
        wrong=wrong,
        why=refused.why if refused else "",
        instance=instance,
        instances=at_rest,
        live=instances_seen(live[:MOST_SHOWN], masks),
        progress=of_waiting(progress(runtime.database)),
        schedules=runtime.actors.schedules.list(actor=actor),
        runs=runs,
        begun_by=_begun_by(runtime, f"{actor}:{instance}"),
        again=_start_of(runtime, actor, asked.get("again")),
        is_masked=bool(masks),
        is_spawner=is_spawner(known),
    )


def _fields(known: KnownClass, state: str, refused: PageAction | None) -> list[FormField]:
    found = fields_of(known, state)
    return filled(found, refused.form) if refused else found


def _begun_by(runtime: Runtime, subject: str) -> dict[str, StoredEvent]:
    """Who has started runs by hand, by their ids."""
    with runtime.database.read() as tx:
        kind = EventKind.ACTOR_STARTED_BY_HAND
        found = runtime.event_log.page(tx, limit=MOST_STARTS, kind=kind, subject=subject)
    return {each.data["run"]: each for each in found if "run" in each.data}


def _start_of(runtime: Runtime, actor: str, run: str | None) -> Message | None:
    """The message that has started a run; raises `BadValue` when it has started none of this actor."""
    if not run:
        return None
    found = runtime.queue.browser().message(run)
    if not found.inbox.startswith(f"{ACTORS}{actor}:") or found.inbox.endswith(REPLY) or found.related_id is not None:
        raise BadValue(f"message {run} has not started a run of {actor}")
    return found


def _usual(instances: Iterable[Instance]) -> str:
    """The instance that a page is about when none is named."""
    names = [each.instance for each in instances]
    return names[0] if names and MAIN not in names else MAIN


def _next(schedules: Iterable[Schedule], actor: str) -> Schedule | None:
    due = [each for each in schedules if each.actor == actor and each.next_us is not None]
    return min(due, key=lambda each: each.next_us or 0, default=None)


def _questions(runtime: Runtime, look: InstanceView) -> list[tuple[OpenRequest, Message | None]]:
    """What it waits for, each with its message; none: that is deleted."""
    browser = runtime.queue.browser()

    def message(question: OpenRequest) -> Message | None:
        with suppress(UnknownMessage):
            return browser.message(question.id)
        return None

    return [(each, message(each)) for each in look.questions[:MOST_QUESTIONS]]


def _phase(text: str) -> Phase:
    try:
        return Phase(text)
    except ValueError:
        raise BadValue(f"{text!r} is not a phase; there are: {', '.join(Phase)}") from None


def _page_of(name: str) -> str:
    """Of an instance as people call it: `actor:instance`."""
    actor, _, instance = name.partition(":")
    inbox_of(actor, instance)
    return instance_page(actor, instance)
