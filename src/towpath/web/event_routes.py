"""Events: what happened."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AwareDatetime, Field

from towpath.events import EventKind
from towpath.web.asking import Reader, runtime_of
from towpath.web.desk_items import Item
from towpath.web.exact import exactly
from towpath.web.model import LARGEST, MOST_ROWS, PREFIX, Page, Sent
from towpath.web.queue_items import event_shown

router = APIRouter(prefix=PREFIX, tags=["events"])

Text = Annotated[str, Field(min_length=1, max_length=400)]


class ChosenEvents(Sent):
    """A page of events: all that is given must hold."""

    kind: EventKind | None = None
    subject: Text | None = Field(None, description="The message, process, flow or whatever else it is about.")
    who: Text | None = Field(None, description="The person or process that did it.")
    since: AwareDatetime | None = Field(None, description="At this time or later.")
    until: AwareDatetime | None = Field(None, description="At this time or earlier.")
    limit: int = Field(100, ge=1, le=MOST_ROWS, description="How many to show.")
    before: int | None = Field(None, ge=1, le=LARGEST, description="Go on where a page ended: its `next`.")


@router.get("/events", response_model=Page[Item])
def events(request: Request, principal: Reader, chosen: Annotated[ChosenEvents, Query()]) -> Response:
    """Events, the newest first. A page can have fewer than asked for, even none, and yet a `next`."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    with runtime.database.read() as tx:
        found = runtime.event_log.search(tx, **dict(chosen))
    return exactly({"items": [event_shown(each, masks) for each in found.items], "next": found.next})
