"""Processes: who is alive, what has to run, who sees to it, and who died."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from towpath.core.exact_json import Exact
from towpath.errors import FieldsMasked
from towpath.operations.model import MOST_ROWS, Item, Page, Reason
from towpath.operations.processes import death_shown, found_shown, overview_shown, process_item, view_shown
from towpath.web.auth import ProcessKeeper, Reader, runtime_of
from towpath.web.changes import Maker, exact, exactly
from towpath.web.failures import PREFIX, Before, Limit

router = APIRouter(prefix=PREFIX, tags=["processes"])

Name = Annotated[str, Path(max_length=300)]


class _OnDuty(Protocol):
    def __call__(self, *names: str, who: str, why: str) -> object: ...


class Processes(BaseModel):
    """Processes, the newest first."""

    items: list[Item]


class ProcessLog(BaseModel):
    """The last lines that a process has written, the oldest first."""

    lines: list[str]


@router.get("/processes", response_model=Processes)
def processes(
    request: Request,
    principal: Reader,
    state: Annotated[Literal["alive", "stopped", "dead"] | None, Query(description="Only these.")] = None,
) -> Response:
    """Processes that claim messages, the newest first. Those that have ended stay for a while."""
    found = runtime_of(request).duties.processes()
    return exactly({"items": [process_item(row) for row in found if state in (None, row.state)]})


@router.get("/processes/{process}", response_model=Item)
def process(request: Request, process: Name, principal: Reader) -> Response:
    """What has to run under a name, with its process and how earlier ones died; or else a process by id or name."""
    runtime = runtime_of(request)
    return exactly(found_shown(runtime.duties.find(process), runtime.desk.masks_for(principal.role)))


@router.get("/supervision", response_model=Item)
def supervision(request: Request, principal: Reader) -> Response:
    """All that has to run, peers too, with its processes; and the term of the one who sees to it."""
    runtime = runtime_of(request)
    found = runtime.duties.overview()
    return exactly(overview_shown(found, runtime.duties.gone(found), runtime.desk.masks_for(principal.role)))


@router.get("/supervision/deaths", response_model=Page[Item])
def deaths(
    request: Request,
    principal: Reader,
    duty: Annotated[str | None, Query(max_length=300, description="Only of this one.")] = None,
    limit: Limit = 100,
    before: Before = None,
) -> Response:
    """Who died, how, when that was noticed, what was freed and when it was back; the newest first."""
    runtime = runtime_of(request)
    if duty is not None:
        runtime.duties.show(duty)  # refused, if nothing has that name
    found = runtime.duties.deaths(limit=limit + 1, duty=duty, before=before)
    part, masks = found[:limit], runtime.desk.masks_for(principal.role)
    after = part[-1].seq if len(found) > limit else None
    return exactly({"items": [death_shown(each, masks) for each in part], "next": after})


@router.get("/supervision/duties/{name}", response_model=Item)
def duty(request: Request, name: Name, principal: Reader) -> Response:
    """One thing that has to run, with its process, and how its last ones died."""
    runtime = runtime_of(request)
    return exactly(view_shown(runtime.duties.show(name), runtime.desk.masks_for(principal.role)))


@router.get("/supervision/duties/{name}/logs")
def logs(
    request: Request,
    name: Name,
    principal: Reader,
    tail: Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many of the last lines.")] = 100,
) -> ProcessLog:
    """What its process, or its last one, has written; it is asked for on the host where that runs."""
    runtime = runtime_of(request)
    if runtime.desk.masks_for(principal.role):
        raise FieldsMasked("some fields are masked for you: a log may quote them")
    return ProcessLog(lines=list(runtime.duties.logs(name, tail=tail)))


class DutyRequest:
    """Somebody who may stop and restart processes, at one request."""

    def __init__(self, request: Request, principal: ProcessKeeper, maker: Maker) -> None:
        self.runtime = runtime_of(request)
        self.masks = self.runtime.desk.masks_for(principal.role)
        self.maker = maker

    def wish(self, what: str, name: str, why: str, act: _OnDuty) -> Response:
        """What is wished is done by the coordinator: the answer says whether there is one."""
        duties = self.runtime.duties

        def shown(_: object) -> Exact:
            has_coordinator = duties.overview().has_coordinator
            return exact({**view_shown(duties.show(name), self.masks), "has_coordinator": has_coordinator})

        return self.maker.make(what, name, lambda: act(name, **self.maker.by(why)), shown)


Keeper = Annotated[DutyRequest, Depends(DutyRequest)]


@router.post("/supervision/duties/{name}/stop", response_model=Item)
def stop(name: Name, sent: Reason, keeper: Keeper) -> Response:
    """It is not to run any more, until it is restarted; the coordinator sees to it."""
    return keeper.wish("stop duty", name, sent.why, keeper.runtime.duties.stop)


@router.post("/supervision/duties/{name}/restart", response_model=Item)
def restart(name: Name, sent: Reason, keeper: Keeper) -> Response:
    """Stop it in order and start it again; one that failed or was stopped is started. The coordinator sees to it."""
    return keeper.wish("restart duty", name, sent.why, keeper.runtime.duties.restart)
