"""The queue: its inboxes and messages, and what people do to them. And events: what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic import AwareDatetime, Field

from towpath.core.events import EventKind
from towpath.core.exact_json import Exact
from towpath.desk.masks import Masks
from towpath.errors import FieldsMasked
from towpath.operations.model import LARGEST, MOST_ROWS, Item, NamedPage, Page, Reason, RequestBody
from towpath.operations.queue import (
    ChosenMessages,
    Cleaned,
    Copied,
    EditedMessage,
    MovedMessage,
    NewMessage,
    Reaped,
    ReplyRequest,
    event_shown,
    inbox_item,
    message_shown,
    view_shown,
)
from towpath.queue.operator import Operator
from towpath.queue.payload import LONGEST_NAME
from towpath.web.auth import QueueKeeper, Reader, runtime_of
from towpath.web.changes import Maker, exact, exactly
from towpath.web.failures import PREFIX, Limit

router = APIRouter(prefix=f"{PREFIX}/queue", tags=["queue"])
event_router = APIRouter(prefix=PREFIX, tags=["events"])

MessageId = Annotated[str, Path(max_length=100)]
Text = Annotated[str, Field(min_length=1, max_length=400)]


class QueueRequest:
    """Somebody who may change the queue, at one request."""

    def __init__(self, request: Request, principal: QueueKeeper, maker: Maker) -> None:
        self.runtime = runtime_of(request)
        self.principal = principal
        self.maker = maker

    @property
    def operator(self) -> Operator:
        return self.runtime.queue.operator(self.principal.name)

    @property
    def masks(self) -> Masks:
        """What this person may not see."""
        return self.runtime.desk.masks_for(self.principal.role)

    def shown(self, message_id: str) -> Exact:
        return exact(view_shown(self.runtime.queue.browser().view(message_id), self.masks))

    def change(self, what: str, message_id: str, act: Callable[[Operator], None]) -> Response:
        """Something that is done to a message, which is shown then."""
        return self.maker.make(what, message_id, lambda: act(self.operator), lambda _: self.shown(message_id))

    def make(self, what: str, subject: str, act: Callable[[Operator, str | None], str]) -> Response:
        """A new message, which is shown then; asked for again with the same idempotency key, it has the same id."""
        id = self.maker.same_id()
        return self.maker.make(
            what, subject, lambda: act(self.operator, id), lambda made: self.shown(made or id or ""), status=201
        )


Keeper = Annotated[QueueRequest, Depends(QueueRequest)]


class ChosenEvents(RequestBody):
    """A page of events: all that is given must hold."""

    kind: EventKind | None = None
    subject: Text | None = Field(None, description="The message, process, flow or whatever else it is about.")
    who: Text | None = Field(None, description="The person or process that did it.")
    since: AwareDatetime | None = Field(None, description="At this time or later.")
    until: AwareDatetime | None = Field(None, description="At this time or earlier.")
    limit: int = Field(100, ge=1, le=MOST_ROWS, description="How many to show.")
    before: int | None = Field(None, ge=1, le=LARGEST, description="Go on where a page ended: its `next`.")


@router.get("/inboxes", response_model=NamedPage[Item])
def inboxes(
    request: Request,
    principal: Reader,
    of_actors: Annotated[
        bool | None, Query(description="Only those that actors read, or only the others; without it, all.")
    ] = None,
    limit: Limit = 100,
    after: Annotated[str | None, Query(max_length=LONGEST_NAME, description="Go on where a page ended.")] = None,
) -> Response:
    """Inboxes by name, and how many messages each has by state. Of a state under `more` there may be more than said."""
    found = runtime_of(request).queue.browser().inboxes(limit=limit + 1, after=after, of_actors=of_actors)
    part = found[:limit]
    return exactly(
        {"items": [inbox_item(each) for each in part], "next": part[-1].name if len(found) > limit else None}
    )


@router.get("/messages", response_model=Page[Item])
def messages(request: Request, principal: Reader, chosen: Annotated[ChosenMessages, Query()]) -> Response:
    """Messages, the newest first. A page can have fewer than asked for, even none, and yet a `next`."""
    runtime = runtime_of(request)
    browser, masks = runtime.queue.browser(), runtime.desk.masks_for(principal.role)
    if chosen.inbox is not None:
        browser.check_inbox(chosen.inbox)
    found = browser.search(chosen.selection(), limit=chosen.limit, before=chosen.before)
    return exactly({"items": [message_shown(each, masks) for each in found.items], "next": found.next})


@router.post("/messages", status_code=201, response_model=Item)
def send(sent: NewMessage, keeper: Keeper) -> Response:
    """Send a message."""

    def act(operator: Operator, id: str | None) -> str:
        return operator.send(
            sent.inbox,
            sent.function,
            sent.payload,
            sent.why,
            headers=sent.headers,
            delay_s=sent.delay_s,
            ttl_s=sent.ttl_s,
            reply=sent.reply,
            id=id,
        )

    return keeper.make("send message", sent.inbox, act)


@router.get("/messages/{message}", response_model=Item)
def show(request: Request, message: MessageId, principal: Reader) -> Response:
    """One message, the messages that belong together with it, the oldest first, and what happened to it."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    return exactly(view_shown(runtime.queue.browser().view(message), masks))


@router.post("/messages/{message}/reply", response_model=Item)
def reply(message: MessageId, sent: ReplyRequest, keeper: Keeper) -> Response:
    """Answer a request in its handler's place. A handler that is at work on it will find its claim lost."""
    return keeper.change("answer message", message, lambda by: by.reply(message, sent.payload, sent.why))


@router.post("/messages/{message}/edit", response_model=Item)
def edit(message: MessageId, sent: EditedMessage, keeper: Keeper) -> Response:
    """Change what a waiting message says. Refused when it is not as it was `seen`."""

    def act(operator: Operator) -> None:
        if keeper.masks:
            raise FieldsMasked("some fields are masked for you: what you cannot see you cannot change")
        operator.edit(message, sent.why, payload=sent.changed_payload, headers=sent.headers, seen_at=sent.seen)

    return keeper.change("edit message", message, act)


@router.post("/messages/{message}/state", response_model=Item)
def set_state(message: MessageId, sent: MovedMessage, keeper: Keeper) -> Response:
    """Move a message: NEW (again), OK (done), ERR (failed, which its sender is told) or DEAD (given up)."""
    what = f"set message to {sent.state}"
    return keeper.change(what, message, lambda by: by.set_state(message, sent.state, sent.why))


@router.post("/messages/{message}/copy", status_code=201, response_model=Item)
def copy(message: MessageId, sent: Copied, keeper: Keeper) -> Response:
    """Send the same message anew, as it is stored or with another payload; shows the new one."""
    return keeper.make(
        "copy message", message, lambda by, id: by.copy(message, sent.why, payload=sent.changed_payload, id=id)
    )


@router.post("/reap", response_model=Reaped)
def reap(sent: Reason, keeper: Keeper) -> Response:
    """Let messages die now whose time to live ran out. Running processes do it by themselves."""
    return keeper.maker.make(
        "reap queue",
        "queue",
        lambda: keeper.operator.reap(sent.why),
        lambda made: Reaped(expired=made or 0),
        is_repeatable=True,
    )


@router.post("/clean", response_model=Cleaned)
def clean(sent: Reason, keeper: Keeper) -> Response:
    """Delete now what is past its retention time. Running processes do it by themselves."""
    return keeper.maker.make(
        "clean queue",
        "queue",
        lambda: keeper.operator.clean(sent.why),
        lambda made: Cleaned(deleted=made or {}),
        is_repeatable=True,
    )


@event_router.get("/events", response_model=Page[Item])
def events(request: Request, principal: Reader, chosen: Annotated[ChosenEvents, Query()]) -> Response:
    """Events, the newest first. A page can have fewer than asked for, even none, and yet a `next`."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    with runtime.database.read() as tx:
        found = runtime.event_log.search(tx, **dict(chosen))
    return exactly({"items": [event_shown(each, masks) for each in found.items], "next": found.next})
