"""Notices and maintenance: what people were told of and whether it arrives, how large things are, and cleaning them."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.admin.cleanup import Size
from towpath.admin.maintenance import LastRun, Maintenance, caches
from towpath.operations.catalog import TargetTrial, seen, tried
from towpath.operations.model import cut
from towpath.web.auth import ProcessKeeper, Reader, Worker, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.event_links import page_of
from towpath.web.console.layout.filters import size
from towpath.web.console.layout.lists import before_of
from towpath.web.console.layout.page import page

notice_router = APIRouter(prefix="/notices", include_in_schema=False)
router = APIRouter(prefix="/maintenance", include_in_schema=False)

ROWS = 50


@notice_router.get("")
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


@notice_router.post("/targets/{target}/try")
def try_(target: str, act: Act, principal: Worker) -> Response:
    """Send one message for trial."""
    return act.do("try target", target, lambda: tried(act.runtime.notify, target), _delivered)


@router.get("")
def maintenance(request: Request, principal: Reader) -> Response:
    """What can be cleaned, with its size and when that was done last; and caches in memory."""
    found = Maintenance(runtime_of(request)).list()
    return page(request, "maintenance.html", cleanings=found, caches=list(caches()), size_of=_size)


@router.post("/{name}/run")
def run(name: str, act: Act, principal: ProcessKeeper) -> Response:
    """Clean it now."""
    cleaning, force = Maintenance(act.runtime), act.form.is_ticked("force")
    return act.do("clean", name, lambda: cleaning.run(name, **act.by, force=force), lambda made: _cleaned(name, made))


def _delivered(made: TargetTrial) -> str:
    return f"{made.target} has taken it" if made.is_delivered else f"{made.target} has not taken it: {made.reason}"


def _cleaned(name: str, made: LastRun) -> str:
    done = ", ".join(f"{count:,} {what}" for what, count in made.done.items() if count) or "nothing was left to clean"
    return f"{name}: {done}; {_size(made.before)} before, {_size(made.after)} after, in {made.took_s:.1f} s"


def _size(found: Size) -> str:
    amount = size(found.amount) if found.unit == "bytes" else f"{found.amount:,} {found.unit}"
    return f"over {amount}" if found.is_more else amount
