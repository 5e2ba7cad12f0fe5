"""The queue and events: inboxes, messages and what a person may do to them; and every event that is kept."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.roles import Principal
from towpath.core.clock import to_datetime
from towpath.core.events import EventKind
from towpath.core.exact_json import indented
from towpath.desk.masks import MASK
from towpath.errors import BadValue, FieldsMasked
from towpath.queue import Message, MessageState
from towpath.queue.model import MessageSelection
from towpath.queue.payload import from_json
from towpath.queue.states import BY_HAND, MOVES
from towpath.web.auth import FormData, QueueKeeper, Reader, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.event_links import page_of
from towpath.web.console.layout.lists import before_of, chosen, events_seen, in_common, time_of
from towpath.web.console.layout.page import page

router = APIRouter(prefix="/queue", include_in_schema=False)
event_router = APIRouter(prefix="/events", include_in_schema=False)

ROWS = 50
EVENT_ROWS = 100
MOST_INBOXES = 200
KINDS = sorted(EventKind)
_OF_ACTORS = {"only actors": True, "without actors": False}

# What a person should know before they move a message by hand.
CONSEQUENCES = {
    MessageState.NEW: "It waits again, and the next worker of its inbox takes it. Whoever works on it now loses it: "
    "a late answer is refused.",
    MessageState.OK: "It counts as done, without anybody having done it. A request cannot be set to OK: answer it.",
    MessageState.ERR: "It counts as failed; who waits for an answer is told so.",
    MessageState.DEAD: "Nobody takes it any more.",
}


@router.get("")
def inboxes(request: Request, principal: Reader) -> Response:
    """How many messages each inbox has in each state."""
    return in_common(request, principal, _inboxes)


@router.get("/messages")
def messages(request: Request, principal: Reader) -> Response:
    """Messages, the newest first."""
    return in_common(request, principal, _messages)


@router.get("/messages/{message_id}")
def message(request: Request, message_id: str, principal: Reader) -> Response:
    """One message with its tree of related messages and what happened to it."""
    runtime = runtime_of(request)
    view = runtime.queue.browser().view(message_id)
    found, masks = view.message, runtime.desk.masks_for(principal.role)
    return page(
        request,
        "message.html",
        message=found,
        payload=MASK if masks else indented(found.payload_json),
        headers=MASK if masks else indented(found.headers_json),
        masks=masks,
        tree=_tree(view.tree),
        events=[] if masks else view.events,  # they quote what the message says
        moves=_moves(found),
        consequences=CONSEQUENCES,
    )


@router.post("/send")
def send(act: Act, principal: QueueKeeper) -> Response:
    """Send a message by hand."""
    form = act.form
    inbox, function = form.text("inbox"), form.text("function")
    payload, headers = from_json(form.lines("payload") or "null"), _headers(form)
    act.runtime.queue.browser().check_inbox(inbox)  # one that nobody reads would swallow it
    return act.do(
        "send message",
        inbox,
        lambda: act.runtime.queue.operator(principal.name).send(
            inbox,
            function,
            payload,
            act.why,
            headers=headers,
            delay_s=form.number("delay_s"),
            ttl_s=form.number("ttl_s"),
            reply=form.is_ticked("reply"),
        ),
        "the message is sent",
        lambda message_id: f"/queue/messages/{message_id}",
    )


@router.post("/messages/{message_id}/reply")
def reply(message_id: str, act: Act, principal: QueueKeeper) -> Response:
    """Answer a request in its handler's place."""
    payload = from_json(act.form.lines("payload") or "null")
    operator = act.runtime.queue.operator(principal.name)
    return act.do("answer message", message_id, lambda: operator.reply(message_id, payload, act.why), "answered")


@router.post("/messages/{message_id}/edit")
def edit(message_id: str, act: Act, principal: QueueKeeper) -> Response:
    """Change the payload and headers of a waiting message, if it is still as the page showed it."""
    form = act.form
    payload, headers = from_json(form.lines("payload") or "null"), _headers(form)
    if act.runtime.desk.masks_for(principal.role):
        raise FieldsMasked(
            "some fields of records are masked for you, and messages may quote them: you cannot edit one"
        )
    seen = act.runtime.queue.browser().message(message_id)
    if form.one("seen") != _seen(seen):
        raise BadValue("the message is not as the page showed it any more: load the page again")
    operator = act.runtime.queue.operator(principal.name)
    return act.do(
        "edit message",
        message_id,
        lambda: operator.edit(message_id, act.why, payload=payload, headers=headers, seen=seen),
        "the message is changed",
    )


@router.post("/messages/{message_id}/state")
def set_state(message_id: str, act: Act, principal: QueueKeeper) -> Response:
    """Move a message by hand."""
    state = MessageState.named(act.form.one("state"))
    operator = act.runtime.queue.operator(principal.name)
    return act.do(
        "move message", message_id, lambda: operator.set_state(message_id, state, act.why), f"it is {state} now"
    )


@event_router.get("")
def events(request: Request, principal: Reader) -> Response:
    """The newest first. A page that is filtered by something rare may be short and go on."""
    return in_common(request, principal, _events)


def _inboxes(request: Request, principal: Principal) -> Response:
    given = chosen(request, "after", "actors")
    found = (
        runtime_of(request)
        .queue.browser()
        .inboxes(limit=MOST_INBOXES + 1, after=given.get("after"), of_actors=_OF_ACTORS.get(given.get("actors", "")))
    )
    shown = found[:MOST_INBOXES]
    after = shown[-1].name if len(found) > MOST_INBOXES else None
    return page(request, "queue.html", inboxes=shown, next=after, states=list(MessageState), kinds=list(_OF_ACTORS))


def _messages(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    now = to_datetime(runtime.database.now())
    state = request.query_params.get("state")
    selection = MessageSelection(
        state=MessageState.named(state) if state else None,
        since=time_of(request, "since", now),
        until=time_of(request, "until", now),
        **chosen(request, "inbox", "function", "owner"),
    )
    found = runtime.queue.browser().search(selection, limit=ROWS, before=before_of(request))
    return page(
        request,
        "messages.html",
        messages=found.items,
        next=found.next,
        states=list(MessageState),
        masks=runtime.desk.masks_for(principal.role),
    )


def _events(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    now = to_datetime(runtime.database.now())
    given = chosen(request, "kind", "subject", "who")
    with runtime.database.read() as tx:
        found = runtime.event_log.search(
            tx,
            limit=EVENT_ROWS,
            before=before_of(request),
            kind=given.get("kind"),
            subject=given.get("subject"),
            who=given.get("who"),
            since=time_of(request, "since", now),
            until=time_of(request, "until", now),
        )
    shown = events_seen(found.items, runtime.desk.masks_for(principal.role))
    return page(
        request,
        "events.html",
        events=shown,
        next=found.next,
        kinds=KINDS,
        page_of=partial(page_of, scopes=principal.scopes),
    )


def _moves(message: Message) -> list[MessageState]:
    """Where a person may move it."""
    return [
        state
        for state, move in BY_HAND.items()
        if message.state in MOVES[move].sources and not (state is MessageState.OK and message.expects_answer)
    ]


def _seen(message: Message) -> str:
    return f"{message.updated_at.isoformat()} {message.state}"


def _tree(messages: list[Message]) -> list[tuple[int, Message]]:
    """Each message with how deep it stands below what it belongs to, parents first."""
    known = {message.id for message in messages}
    below: dict[str | None, list[Message]] = {}
    for each in messages:
        parent = next((id for id in (each.related_id, each.audit_id) if id in known and id != each.id), None)
        below.setdefault(parent, []).append(each)
    found: list[tuple[int, Message]] = []
    waiting = [(0, each) for each in reversed(below.get(None, []))]
    seen: set[str] = set()
    while waiting:
        depth, each = waiting.pop()
        if each.id in seen:
            continue
        seen.add(each.id)
        found.append((depth, each))
        waiting += [(depth + 1, child) for child in reversed(below.get(each.id, []))]
    return found + [(0, each) for each in messages if each.id not in seen]


def _headers(form: FormData) -> dict[str, Any]:
    found = from_json(form.lines("headers") or "{}", "header")
    if not isinstance(found, dict):
        raise BadValue("the headers are not a JSON object")
    return found
