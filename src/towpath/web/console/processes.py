"""Processes: what has to run, who sees to it, what died and why, and everybody else who is alive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.roles import Principal
from towpath.core.clock import to_datetime
from towpath.db.event_log import StoredEvent
from towpath.db.processes import ProcessRow
from towpath.errors import FieldsMasked, LauncherError, Refused
from towpath.operations.model import cut
from towpath.queue import MessageState
from towpath.supervision.duties.model import Duty
from towpath.supervision.duties.store import Death
from towpath.supervision.service import Overview
from towpath.web.auth import ProcessKeeper, Reader, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import events_of, events_seen, in_common, troubles_seen, whole_of
from towpath.web.console.layout.page import page

if TYPE_CHECKING:
    from towpath.desk.masks import Masks
    from towpath.runtime import Runtime


router = APIRouter(prefix="/processes", include_in_schema=False)

MOST_DEATHS = 10
MOST_OTHERS = 200
MOST_EVENTS = 20
MOST_HELD = 10
LINES = 100
MOST_LINES = 1000
LONGEST_LINE = 2000


@router.get("")
def processes(request: Request, principal: Reader) -> Response:
    """All that has to run, with the process that does it; the last deaths; who else is alive."""
    return in_common(request, principal, _processes)


def _processes(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = runtime.duties.overview()
    gone = runtime.duties.gone(found)
    duties = sorted(found.duties, key=lambda each: (each.host, each.spec.order, each.name))
    deaths, older = _deaths(request, runtime, None, masks)
    return page(
        request,
        "processes.html",
        found=found,
        duties=troubles_seen(duties, masks),
        peers=[each for each in duties if each.kind == "peer"],
        gone=gone,
        is_unwatched=is_unwatched(found, gone),
        deaths=deaths,
        older=older,
        others=_others(found, request.query_params.get("ended") == "yes"),
        most=MOST_OTHERS,
    )


@router.get("/{name:path}")
def process(request: Request, name: str, principal: Reader) -> Response:
    """What has to run under a name, or a process by its id: what it does, owns and writes, and how others died."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = runtime.duties.find(name)
    duty, row = (None, found) if isinstance(found, ProcessRow) else (found.duty, found.process)
    deaths, older = _deaths(request, runtime, duty.name, masks) if duty else ([], None)
    lines, no_lines = _log(runtime, duty, whole_of(request, "lines") or LINES, masks) if duty else ([], "")
    return page(
        request,
        "process.html",
        name=name,
        duty=None if duty is None else troubles_seen([duty], masks)[0],
        row=row,
        is_gone=duty is not None and duty.name in runtime.duties.gone(runtime.duties.overview()),
        deaths=deaths,
        older=older,
        held=_held(runtime, row),
        lines=lines,
        no_lines=no_lines,
        events=_events(runtime, duty, row, masks),
    )


@router.post("/{name:path}/stop")
def stop(name: str, act: Act, principal: ProcessKeeper) -> Response:
    """It is not to run any more; the coordinator sees to it."""
    duties = act.runtime.duties
    return act.do(
        "stop duty", name, lambda: duties.stop(name, **act.by), lambda made: _told(act.runtime, made[0], "stop")
    )


@router.post("/{name:path}/restart")
def restart(name: str, act: Act, principal: ProcessKeeper) -> Response:
    """What runs makes way for a new start; what does not run is started."""
    duties = act.runtime.duties
    return act.do(
        "restart duty",
        name,
        lambda: duties.restart(name, **act.by),
        lambda made: _told(act.runtime, made[0], "restart"),
    )


def _told(runtime: Runtime, duty: Duty, wish: str) -> str:
    said = "is stopped" if duty.state == "stopped" else f"is to {wish}; it is {duty.state} now"
    nobody = "" if runtime.duties.overview().has_coordinator else ". No peer is there to see to it: type towpath up"
    return f"{duty.name} {said}{nobody}"


def is_unwatched(found: Overview, gone: frozenset[str]) -> bool:
    """Whether no peer is left that could coordinate; between two terms there are some, and one of them soon does."""
    has_peer = any(duty.kind == "peer" and duty.is_running and duty.name not in gone for duty in found.duties)
    return not found.has_coordinator and not has_peer and any(duty.is_wanted for duty in found.duties)


def _others(found: Overview, with_ended: bool) -> list[tuple[ProcessRow, str]]:
    """Who does no duty, with their states. Who is overdue is dead as soon as somebody looks."""
    now = to_datetime(found.now_us)
    on_duty = {duty.process_id for duty in found.duties}
    rows = [each for each in found.processes.values() if each.id not in on_duty]
    return [
        (each, "overdue" if each.state == "alive" and each.lease_until < now else each.state)
        for each in rows
        if with_ended or each.state == "alive"
    ][: MOST_OTHERS + 1]


def _deaths(request: Request, runtime: Runtime, duty: str | None, masks: Masks) -> tuple[Sequence[Death], int | None]:
    before = whole_of(request, "deaths_before")
    found = runtime.duties.deaths(limit=MOST_DEATHS + 1, duty=duty, before=before)
    return cut(troubles_seen(found, masks), MOST_DEATHS)


def _log(runtime: Runtime, duty: Duty, tail: int, masks: Masks) -> tuple[list[str], str]:
    """Its last lines; or none, and why they cannot be shown."""
    try:
        if masks:
            raise FieldsMasked("some fields are masked for you: a log may quote them")
        found = islice(runtime.duties.logs(duty.name, tail=min(tail, MOST_LINES)), MOST_LINES)
        return [line[:LONGEST_LINE] for line in found], ""
    except (LauncherError, Refused) as error:
        return [], str(error)


def _held(runtime: Runtime, row: ProcessRow | None) -> dict[str, Any] | None:
    if row is None or row.state != "alive":
        return None
    messages = runtime.queue.browser().page(limit=MOST_HELD + 1, state=MessageState.ACK, owner=row.id)
    return {"messages": messages[:MOST_HELD], "more": len(messages) > MOST_HELD, **runtime.duties.held(row.id)}


def _events(runtime: Runtime, duty: Duty | None, row: ProcessRow | None, masks: Masks) -> list[StoredEvent]:
    names = [each for each in (duty and duty.name, row and row.id) if each]
    found = [event for name in names for event in events_of(runtime, name, MOST_EVENTS)]
    return events_seen(sorted(found, key=lambda each: -each.seq)[:MOST_EVENTS], masks)
