"""Maintenance: how large things are, cleaning them now, and what this process remembers."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.maintenance.cleaning import Size
from towpath.maintenance.maintenance import LastRun, Maintenance
from towpath.maintenance.memory import caches
from towpath.web.asking import ProcessKeeper, Reader, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.filters import size
from towpath.web.console.pages import page

router = APIRouter(prefix="/maintenance", include_in_schema=False)


@router.get("")
def maintenance(request: Request, principal: Reader) -> Response:
    """What can be cleaned, with its size and when that was done last; and caches in memory."""
    found = Maintenance(runtime_of(request)).list()
    return page(request, "maintenance.html", cleanings=found, caches=list(caches()), size_of=_size)


@router.post("/{name}/run")
def run(name: str, act: Act, principal: ProcessKeeper) -> Response:
    """Clean it now."""
    cleaning, force = Maintenance(act.runtime), act.form.is_ticked("force")
    return act.do(
        principal,
        "clean",
        name,
        lambda: cleaning.run(name, who=principal.name, why=act.why, force=force),
        lambda made: _said(name, made),
    )


def _said(name: str, made: LastRun) -> str:
    done = ", ".join(f"{count:,} {what}" for what, count in made.done.items() if count) or "nothing was left to clean"
    return f"{name}: {done}; {_size(made.before)} before, {_size(made.after)} after, in {made.took_s:.1f} s"


def _size(found: Size) -> str:
    amount = size(found.amount) if found.unit == "bytes" else f"{found.amount:,} {found.unit}"
    return f"over {amount}" if found.is_more else amount
