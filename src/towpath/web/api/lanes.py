"""Lanes: where records wait that are to be tried again."""

from __future__ import annotations

import re
from typing import Annotated, Protocol

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from towpath.core.clock import to_datetime, to_micros
from towpath.desk.case_queries import FIRST_DUE
from towpath.desk.cases.model import Case
from towpath.desk.cases.store import Due
from towpath.desk.replay.lane_service import LaneView
from towpath.errors import BadValue
from towpath.operations.cases import case_item
from towpath.operations.model import Item, MarkedPage, Reason
from towpath.web.api.desk_request import AtWork
from towpath.web.auth import Reader, runtime_of
from towpath.web.failures import PREFIX, FlowName, Limit

router = APIRouter(prefix=f"{PREFIX}/lanes", tags=["lanes"])

LaneNumber = Annotated[int, Path(ge=0, le=1_000_000)]
_DUE = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)


class Lanes(BaseModel):
    """Lanes, by flow."""

    items: list[Item]


@router.get("")
def lanes(request: Request, principal: Reader, flow: Annotated[str | None, Query(max_length=300)] = None) -> Lanes:
    """How long records wait in each lane, and how many wait now."""
    return Lanes(items=[lane_item(each) for each in runtime_of(request).lanes.list(flow)])


@router.get("/{flow}/{lane}")
def show(request: Request, flow: FlowName, lane: LaneNumber, principal: Reader) -> Item:
    """One lane."""
    return lane_item(runtime_of(request).lanes.show(flow, lane))


@router.get("/{flow}/{lane}/cases")
def waiting(
    request: Request,
    flow: FlowName,
    lane: LaneNumber,
    principal: Reader,
    limit: Limit = 100,
    after: Annotated[str | None, Query(max_length=40, description="Go on where a page ended: its `next`.")] = None,
) -> MarkedPage[Item]:
    """What waits in a lane, what is due first first."""
    runtime = runtime_of(request)
    runtime.lanes.show(flow, lane)  # refused if there is no such lane
    masks = runtime.desk.masks_for(principal.role)
    begin = FIRST_DUE if after is None else read_due(after)
    found = runtime.desk.cases.waiting(flow, lane, limit=limit + 1, after=begin, masks=masks)
    part = found[:limit]
    return MarkedPage(items=[case_item(case) for case in part], next=due_text(part[-1]) if len(found) > limit else None)


@router.post("/{flow}/{lane}/pause", response_model=Item)
def pause(flow: FlowName, lane: LaneNumber, sent: Reason, worker: AtWork) -> Response:
    """Release nothing more of it until it is resumed."""
    return _change(worker, "pause lane", flow, lane, sent.why, worker.runtime.lanes.pause)


@router.post("/{flow}/{lane}/resume", response_model=Item)
def resume(flow: FlowName, lane: LaneNumber, sent: Reason, worker: AtWork) -> Response:
    """Let a paused lane go on."""
    return _change(worker, "resume lane", flow, lane, sent.why, worker.runtime.lanes.resume)


@router.post("/{flow}/{lane}/hurry", response_model=Item)
def hurry(flow: FlowName, lane: LaneNumber, sent: Reason, worker: AtWork) -> Response:
    """Release all that waits in it now, as if it were due."""
    return _change(worker, "hurry lane", flow, lane, sent.why, worker.runtime.lanes.hurry)


@router.post("/{flow}/{lane}/empty", response_model=Item)
def empty(flow: FlowName, lane: LaneNumber, sent: Reason, worker: AtWork) -> Response:
    """Put all that waits in it in front of persons."""
    lanes = worker.runtime.lanes

    def act(flow: str, lane: int, *, who: str, why: str) -> object:
        lanes.show(flow, lane)  # refused before the first portion, if there is no such lane
        return lanes.empty(flow, lane, who=who, why=why)

    return _change(worker, "empty lane", flow, lane, sent.why, act, is_repeatable=True)


class OnLane(Protocol):
    """Something that is done to a lane."""

    def __call__(self, flow: str, lane: int, /, *, who: str, why: str) -> object: ...


def due_text(case: Case) -> str:
    """For the page after this case."""
    return f"{0 if case.due_at is None else to_micros(case.due_at)}-{case.seq}"


def read_due(text: str) -> Due:
    """Where a page ended; raises `BadValue`."""
    found = _DUE.fullmatch(text)
    if found is None:
        raise BadValue("after: write what a page had under `next`")
    return int(found[1]), int(found[2])


def _change(
    worker: AtWork, what: str, flow: str, lane: int, why: str, act: OnLane, *, is_repeatable: bool = False
) -> Response:
    return worker.maker.make(
        what,
        f"{flow}/{lane}",
        lambda: act(flow, lane, **worker.by(why)),
        lambda _: lane_item(worker.runtime.lanes.show(flow, lane)),
        is_repeatable=is_repeatable,
    )


def lane_item(view: LaneView) -> Item:
    lane, crowd = view.lane, view.crowd
    return {
        "flow": lane.flow,
        "lane": lane.partition,
        "topic": lane.topic,
        "delay_s": lane.delay_ms / 1000,
        "jitter_s": lane.jitter_ms / 1000,
        "is_paused": lane.is_paused,
        "waiting": crowd.cases,
        "first_due": None if crowd.first_due is None else to_datetime(crowd.first_due),
        "last_due": None if crowd.last_due is None else to_datetime(crowd.last_due),
        "position": lane.position,
        "released_beyond": len(lane.beyond.after),
        "owner": lane.owner,
        "made_at": lane.made_at,
    }
