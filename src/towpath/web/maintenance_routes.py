"""What can be cleaned, how large it is, and what this process remembers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from towpath.maintenance.maintenance import LastRun, Maintenance, cleaning_item, last_item
from towpath.maintenance.memory import caches
from towpath.web.asking import ProcessKeeper, Reader, runtime_of
from towpath.web.changing import Maker
from towpath.web.desk_items import Item
from towpath.web.model import PREFIX, Reason

router = APIRouter(prefix=f"{PREFIX}/maintenance", tags=["maintenance"])

Name = Annotated[str, Path(max_length=100)]


class Kept(BaseModel):
    """What can be cleaned, and caches of the process that answers."""

    items: list[Item]
    caches: list[Item]


class Run(Reason):
    """Clean something."""

    force: bool = Field(False, description="Also while others are at work that it would disturb.")


@router.get("")
def maintenance(request: Request, principal: Reader) -> Kept:
    """What can be cleaned, with its size and when that was done last by hand; and caches in memory."""
    found = Maintenance(runtime_of(request)).list()
    memory = [{**each._asdict(), "hit_rate": each.hit_rate} for each in caches()]
    return Kept(items=[cleaning_item(each) for each in found], caches=memory)


@router.get("/{name}")
def show(request: Request, name: Name, principal: Reader) -> Item:
    """One thing that can be cleaned."""
    return cleaning_item(Maintenance(runtime_of(request)).show(name))


@router.post("/{name}/run", response_model=Item)
def run(request: Request, name: Name, sent: Run, principal: ProcessKeeper, maker: Maker) -> Response:
    """Clean it now. Refused while others would be disturbed, unless `force` is set."""
    cleaning = Maintenance(runtime_of(request))

    def act() -> LastRun:
        return cleaning.run(name, who=principal.name, why=sent.why, force=sent.force)

    def show(made: LastRun | None) -> Item:
        return {"name": name, **(last_item(made or cleaning.last(name)) or {})}

    return maker.make(principal, "clean", name, act, show, is_repeatable=True)
