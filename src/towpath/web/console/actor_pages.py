"""Actors: instances with the state that they are in; one of them with its graph, history, questions and failures."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.actors.actor_json import due_at, parent_of, resume_of
from towpath.actors.drawing_text import RESUMES
from towpath.actors.instance import inbox_of
from towpath.actors.known import start_again
from towpath.actors.phase import Phase
from towpath.actors.progress import progress
from towpath.actors.spawned import spawned_of
from towpath.actors.starting import Start
from towpath.desk.masking import MASK
from towpath.errors import BadValue, NotFailed, UnknownActor, UnknownMessage
from towpath.exact_json import indented
from towpath.queue.payload import ACTORS, from_json
from towpath.web.actor_code import code_of, known_of
from towpath.web.asking import ActorKeeper, Reader, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import chosen
from towpath.web.console.pages import page
from towpath.web.console.seen import events_seen, instances_seen
from towpath.web.console.workflow_pages import drawn, instance_page, of_waiting

if TYPE_CHECKING:
    from towpath.actors.browser import Question
    from towpath.actors.look import Look
    from towpath.queue.message import Message
    from towpath.runtime import Runtime

router = APIRouter(prefix="/actors", include_in_schema=False)

ROWS = 100
HISTORY = 50
MOST_QUESTIONS = 20


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
        principal,
        "abort actor",
        f"{actor}:{instance}",
        lambda: act.runtime.actors.abort(actor, instance, who=principal.name, why=act.why),
        "it is to end: its clean-up runs, then it counts as failed",
        instance_page(actor, instance),
    )


@router.post("/{actor}/{instance:path}/wake")
def wake(actor: str, instance: str, act: Act, principal: ActorKeeper) -> Response:
    """Let an instance that sleeps go on now, and not when its time comes."""
    return act.do(
        principal,
        "wake actor",
        f"{actor}:{instance}",
        lambda: act.runtime.actors.wake(actor, instance, who=principal.name, why=act.why),
        "it goes on now",
        instance_page(actor, instance),
    )


@router.post("/{actor}/{instance:path}/restart")
def restart(actor: str, instance: str, act: Act, principal: ActorKeeper) -> Response:
    """Start an instance that has failed again: where it failed, or with a state and fields that are given."""
    actors, code, form = act.runtime.actors, code_of(act.request), act.form

    def choose() -> Start:
        found = actors.instance(actor, instance)
        if not form.text("fields"):
            return start_again(actors.browser(), code.known(actors).get(actor), found)
        if found.phase is not Phase.FAILED:
            raise NotFailed(f"{found.name} is {found.phase}; only what has failed is started again")
        fields = from_json(form.lines("fields"), "state")
        return code.made_known(actors, actor).start(instance, form.maybe("state"), fields)

    return act.do(
        principal,
        "restart actor",
        f"{actor}:{instance}",
        lambda: actors.start_by_hand(choose(), principal.name, act.why),
        "it is started again",
        instance_page(actor, instance),
    )


def _questions(runtime: Runtime, look: Look) -> list[tuple[Question, Message | None]]:
    """What it waits for, each with its message; none: that is deleted."""
    browser = runtime.queue.browser()

    def message(question: Question) -> Message | None:
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
