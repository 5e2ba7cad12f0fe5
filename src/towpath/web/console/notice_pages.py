"""Notices: what people were told of, where that goes, and whether it arrives there."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.web.asking import Reader, Worker, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, cut
from towpath.web.console.pages import page
from towpath.web.console.subjects import page_of
from towpath.web.notice_items import Tried, seen, tried

router = APIRouter(prefix="/notices", include_in_schema=False)

ROWS = 50


@router.get("")
def notices(request: Request, principal: Reader) -> Response:
    """What people were told of, the newest first, and the targets that the settings name."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found, next = cut(runtime.notify.page(limit=ROWS + 1, before=before_of(request)), ROWS)
    return page(
        request,
        "notices.html",
        notices=[seen(each, masks) for each in found],
        next=next,
        targets=runtime.notify.targets(),
        page_of=partial(page_of, scopes=principal.scopes),
    )


@router.post("/targets/{target}/try")
def try_(target: str, act: Act, principal: Worker) -> Response:
    """Send one message for trial."""
    return act.do(principal, "try target", target, lambda: tried(act.runtime.notify, target), _said)


def _said(made: Tried) -> str:
    return f"{made.target} has taken it" if made.is_delivered else f"{made.target} has not taken it: {made.reason}"
