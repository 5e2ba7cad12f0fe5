"""What happened: every event that is kept, found by kind, subject, person and time, and followed as it comes."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.principal import Principal
from towpath.clock import to_datetime
from towpath.events import EventKind
from towpath.web.asking import Reader, runtime_of
from towpath.web.console.common import in_common
from towpath.web.console.listing import before_of, chosen, time_of
from towpath.web.console.pages import page
from towpath.web.console.seen import events_seen
from towpath.web.console.subjects import page_of

router = APIRouter(prefix="/events", include_in_schema=False)

ROWS = 100
KINDS = sorted(EventKind)


@router.get("")
def events(request: Request, principal: Reader) -> Response:
    """The newest first. A page that is filtered by something rare may be short and go on."""
    return in_common(request, principal, _events)


def _events(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    now = to_datetime(runtime.database.now())
    given = chosen(request, "kind", "subject", "who")
    with runtime.database.read() as tx:
        found = runtime.event_log.search(
            tx,
            limit=ROWS,
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
