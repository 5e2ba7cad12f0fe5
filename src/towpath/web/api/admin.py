"""Maintenance: what can be cleaned, how large it is, what this process remembers. And notifications."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from towpath.admin.maintenance import LastRun, Maintenance, caches, cleaning_item, last_item
from towpath.operations.catalog import TargetTrial, notice_item, target_item, tried
from towpath.operations.model import Item, Page, Reason, page
from towpath.web.auth import ProcessKeeper, Reader, Worker, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX, Before, Limit

router = APIRouter(prefix=f"{PREFIX}/maintenance", tags=["maintenance"])
notice_router = APIRouter(prefix=f"{PREFIX}/notify", tags=["notifications"])

Name = Annotated[str, Path(max_length=100)]
TargetName = Annotated[str, Path(max_length=300)]


class MaintenanceOverview(BaseModel):
    """What can be cleaned, and caches of the process that answers."""

    items: list[Item]
    caches: list[Item]


class MaintenanceRun(Reason):
    """Clean something."""

    force: bool = Field(False, description="Also while others are at work that it would disturb.")


class TargetList(BaseModel):
    """Targets, without their secrets."""

    items: list[Item]


@router.get("")
def maintenance(request: Request, principal: Reader) -> MaintenanceOverview:
    """What can be cleaned, with its size and when that was done last by hand; and caches in memory."""
    found = Maintenance(runtime_of(request)).list()
    memory = [{**each._asdict(), "hit_rate": each.hit_rate} for each in caches()]
    return MaintenanceOverview(items=[cleaning_item(each) for each in found], caches=memory)


@router.get("/{name}")
def show(request: Request, name: Name, principal: Reader) -> Item:
    """One thing that can be cleaned."""
    return cleaning_item(Maintenance(runtime_of(request)).show(name))


@router.post("/{name}/run", response_model=Item)
def run(request: Request, name: Name, sent: MaintenanceRun, principal: ProcessKeeper, maker: Maker) -> Response:
    """Clean it now. Refused while others would be disturbed, unless `force` is set."""
    cleaning = Maintenance(runtime_of(request))

    def act() -> LastRun:
        return cleaning.run(name, **maker.by(sent.why), force=sent.force)

    def show(made: LastRun | None) -> Item:
        return {"name": name, **(last_item(made or cleaning.last(name)) or {})}

    return maker.make("clean", name, act, show, is_repeatable=True)


@notice_router.get("/notices")
def notices(request: Request, principal: Reader, limit: Limit = 100, before: Before = None) -> Page[Item]:
    """What people are told of, the newest first."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = runtime.notify.page(limit=limit + 1, before=before)
    return page(found, limit, lambda notice: notice_item(notice, masks))


@notice_router.get("/targets")
def targets(request: Request, principal: Reader) -> TargetList:
    """Where notifications go, as the settings say, and whether they arrive."""
    notify = runtime_of(request).notify
    deliveries = notify.deliveries()
    return TargetList(items=[target_item(each, deliveries[each.name]) for each in notify.targets()])


@notice_router.post("/targets/{target}/try", response_model=TargetTrial)
def try_(request: Request, target: TargetName, sent: Reason, principal: Worker, maker: Maker) -> Response:
    """Send one message for trial to a target, at once, and say whether it was taken."""
    notify = runtime_of(request).notify

    def show(made: TargetTrial | None) -> TargetTrial:
        return made or TargetTrial(target=target, is_delivered=False, id=None, reason="that is not known any more")

    return maker.make("try target", target, lambda: tried(notify, target), show)
