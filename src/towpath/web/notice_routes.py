"""Notifications: what people are told of, where it goes, and whether it arrives."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from towpath.web.asking import Reader, Worker, runtime_of
from towpath.web.changing import Maker
from towpath.web.desk_items import Item
from towpath.web.model import PREFIX, Before, Limit, Page, Reason, page
from towpath.web.notice_items import Tried, notice_item, target_item, tried

router = APIRouter(prefix=f"{PREFIX}/notify", tags=["notifications"])

TargetName = Annotated[str, Path(max_length=300)]


class Targets(BaseModel):
    """Targets, without their secrets."""

    items: list[Item]


@router.get("/notices")
def notices(request: Request, principal: Reader, limit: Limit = 100, before: Before = None) -> Page[Item]:
    """What people are told of, the newest first."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = runtime.notify.page(limit=limit + 1, before=before)
    return page(found, limit, lambda notice: notice_item(notice, masks))


@router.get("/targets")
def targets(request: Request, principal: Reader) -> Targets:
    """Where notifications go, as the settings say, and whether they arrive."""
    notify = runtime_of(request).notify
    deliveries = notify.deliveries()
    return Targets(items=[target_item(each, deliveries[each.name]) for each in notify.targets()])


@router.post("/targets/{target}/try", response_model=Tried)
def try_(request: Request, target: TargetName, sent: Reason, principal: Worker, maker: Maker) -> Response:
    """Send one message for trial to a target, at once, and say whether it was taken."""
    notify = runtime_of(request).notify

    def show(made: Tried | None) -> Tried:
        return made or Tried(target=target, is_delivered=False, id=None, reason="that is not known any more")

    return maker.make(principal, "try target", target, lambda: tried(notify, target), show)
