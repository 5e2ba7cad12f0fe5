"""Lanes: where records wait that are to be tried again, when they are due, and what a person may do about that."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.core.clock import to_datetime
from towpath.desk.case_queries import FIRST_DUE
from towpath.desk.replay.lane_service import LaneView
from towpath.web.api.lanes import LaneNumber, OnLane, due_text, read_due
from towpath.web.auth import Reader, Worker, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import chosen, events_of
from towpath.web.console.layout.page import page
from towpath.web.failures import FlowName

router = APIRouter(prefix="/desk/lanes", include_in_schema=False)

ROWS = 50
MOST_EVENTS = 10


@router.get("")
def lanes(request: Request, principal: Reader) -> Response:
    """How long records wait in each lane of each flow, how many wait now, and when they are due."""
    runtime = runtime_of(request)
    found = runtime.lanes.list(chosen(request, "flow").get("flow"))
    pauses = {view.lane.name: events_of(runtime, view.lane.name, 1) for view in found if view.lane.is_paused}
    return page(request, "lanes.html", lanes=[(view, *_dues(view)) for view in found], pauses=pauses)


@router.get("/{flow}/{lane}")
def lane(request: Request, flow: FlowName, lane: LaneNumber, principal: Reader) -> Response:
    """One lane, with what waits in it, by when that is due."""
    runtime = runtime_of(request)
    view = runtime.lanes.show(flow, lane)
    masks = runtime.desk.masks_for(principal.role)
    after = request.query_params.get("after", "")
    begin = read_due(after) if after else FIRST_DUE
    found = runtime.desk.cases.waiting(flow, lane, limit=ROWS + 1, after=begin, masks=masks)
    shown = found[:ROWS]
    first, last = _dues(view)
    return page(
        request,
        "lane.html",
        lane=view.lane,
        crowd=view.crowd,
        first=first,
        last=last,
        cases=shown,
        next=due_text(shown[-1]) if len(found) > ROWS else None,
        events=events_of(runtime, view.lane.name, MOST_EVENTS),
    )


@router.post("/{flow}/{lane}/pause")
def pause(flow: FlowName, lane: LaneNumber, act: Act, principal: Worker) -> Response:
    """Release nothing more of it until it is resumed."""
    return _change(act, "pause lane", flow, lane, act.runtime.lanes.pause, "nothing more of it is released")


@router.post("/{flow}/{lane}/resume")
def resume(flow: FlowName, lane: LaneNumber, act: Act, principal: Worker) -> Response:
    """Let a paused lane go on."""
    return _change(act, "resume lane", flow, lane, act.runtime.lanes.resume, "it goes on")


@router.post("/{flow}/{lane}/hurry")
def hurry(flow: FlowName, lane: LaneNumber, act: Act, principal: Worker) -> Response:
    """Release all that waits in it now, as if it were due."""
    lanes = act.runtime.lanes
    return act.do(
        "hurry lane",
        f"{flow}/{lane}",
        lambda: lanes.hurry(flow, lane, **act.by),
        lambda cases: f"{cases:,} cases are due now",
    )


@router.post("/{flow}/{lane}/empty")
def empty(flow: FlowName, lane: LaneNumber, act: Act, principal: Worker) -> Response:
    """Put all that waits in it in front of persons."""
    lanes = act.runtime.lanes
    lanes.show(flow, lane)  # refused before the first portion, if there is no such lane
    return act.do(
        "empty lane",
        f"{flow}/{lane}",
        lambda: lanes.empty(flow, lane, **act.by),
        lambda cases: f"{cases:,} cases are open now",
    )


def _change(act: Act, what: str, flow: str, lane: int, how: OnLane, said: str) -> Response:
    return act.do(what, f"{flow}/{lane}", lambda: how(flow, lane, **act.by), said)


def _dues(view: LaneView) -> tuple[object, object]:
    """When the first and the last of what waits is due."""
    first, last = view.crowd.first_due, view.crowd.last_due
    return None if first is None else to_datetime(first), None if last is None else to_datetime(last)
