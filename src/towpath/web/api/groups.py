"""Groups of cases."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from towpath.core.clock import to_datetime, to_micros
from towpath.desk.groups.model import GroupState
from towpath.desk.groups.service import Split
from towpath.desk.groups.store import Mark, newest_first
from towpath.errors import BadValue
from towpath.operations.case_models import Archived, GroupAssigned, Merged, Noted, SplitOff
from towpath.operations.cases import group_shown, group_view
from towpath.operations.model import Item, MarkedPage, Reason
from towpath.web.api.desk_request import AtWork, ids_of
from towpath.web.auth import Reader, runtime_of
from towpath.web.failures import PREFIX, Limit, Number

router = APIRouter(prefix=f"{PREFIX}/desk", tags=["groups"])

_MARK = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)


@router.get("/groups")
def groups(
    request: Request,
    principal: Reader,
    flow: Annotated[str | None, Query(max_length=300)] = None,
    state: GroupState | None = None,
    code: Annotated[int | None, Query(ge=0, le=1_000_000)] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=300, description="Somewhere in title, exception or step.")
    ] = None,
    limit: Limit = 100,
    before: Annotated[str | None, Query(max_length=40, description="Go on where a page ended: its `next`.")] = None,
) -> MarkedPage[Item]:
    """Groups, the one with the newest error first, each with how many cases it has in each state.

    `trend` is how many errors came in each of the last 24 hours, the present hour last.
    """
    desk = runtime_of(request).desk
    masks = desk.masks_for(principal.role)
    mark = None if before is None else read_mark(before)
    found = desk.groups.page(flow=flow, state=state, code=code, text=text, limit=limit + 1, before=mark, masks=masks)
    part = found[:limit]
    next_ = mark_text(newest_first(part[-1])) if len(found) > limit else None
    trends = desk.groups.trends([group.id for group in part])
    return MarkedPage(items=[{**group_shown(each, masks), "trend": trends[each.id]} for each in part], next=next_)


@router.get("/groups/{group}")
def show(request: Request, group: Number, principal: Reader) -> Item:
    """One group: why its cases are together, and what was done to it."""
    desk = runtime_of(request).desk
    return group_view(desk.groups.show(group), desk.masks_for(principal.role))


@router.post("/groups/{group}/assign", response_model=Item)
def assign(group: Number, sent: GroupAssigned, worker: AtWork) -> Response:
    """Give a group to a person, or to nobody."""
    act = partial(worker.desk.groups.assign, assignee=sent.assignee)
    return worker.group("assign group", group, sent.why, act)


@router.post("/groups/{group}/note", response_model=Item)
def note(group: Number, sent: Noted, worker: AtWork) -> Response:
    """Keep a remark with a group."""
    groups = worker.desk.groups
    return worker.group("note group", group, sent.text, lambda id, who, why: groups.note(id, why, who=who))


@router.post("/groups/{group}/look", response_model=Item)
def look(group: Number, sent: Reason, worker: AtWork) -> Response:
    """Say that somebody knows of it and is at work on it: *ongoing*."""
    return worker.group("look into group", group, sent.why, worker.desk.groups.look)


@router.post("/groups/{group}/resolve", response_model=Item)
def resolve(group: Number, sent: Reason, worker: AtWork) -> Response:
    """Say that its cause is mended; an error that comes now brings it back."""
    return worker.group("resolve group", group, sent.why, worker.desk.groups.resolve)


@router.post("/groups/{group}/archive", response_model=Item)
def archive(group: Number, sent: Archived, worker: AtWork) -> Response:
    """Say that nobody wants to hear of it until so many more, a time, or a rate."""
    act = partial(worker.desk.groups.archive, archive=sent.archive())
    return worker.group("archive group", group, sent.why, act)


@router.post("/groups/{group}/merge", response_model=Item)
def merge(group: Number, sent: Merged, worker: AtWork) -> Response:
    """Let its cases, and errors that come, count as those of another group."""
    return worker.group("merge group", group, sent.why, partial(worker.desk.groups.merge, into=sent.into))


@router.post("/groups/{group}/unmerge", response_model=Item)
def unmerge(group: Number, sent: Reason, worker: AtWork) -> Response:
    """Make a group that was merged its own again."""
    return worker.group("unmerge group", group, sent.why, worker.desk.groups.unmerge)


@router.post("/groups/{group}/split", response_model=Item)
def split(group: Number, sent: SplitOff, worker: AtWork) -> Response:
    """Make a group of its own of some cases, or of all of one fingerprint."""
    desk = worker.desk

    def act() -> Split:
        ids = None if sent.cases is None else ids_of(desk, sent.cases)
        return desk.groups.split(group, ids=ids, fingerprint=sent.fingerprint, title=sent.title, **worker.by(sent.why))

    def show(made: Split | None) -> Item:
        if made is None:  # the answer was lost: the history of the old group names the new one
            return {"group": group_view(desk.groups.show(group), worker.masks), "moved": None, "job": None}
        return {"group": group_shown(made.group, worker.masks), "moved": made.moved, "job": made.job_id}

    return worker.maker.make("split group", group, act, show)


def mark_text(mark: Mark) -> str:
    """For the next page."""
    return f"{to_micros(mark[0])}-{mark[1]}"


def read_mark(text: str) -> Mark:
    """Where a page ended; raises `BadValue`."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise BadValue("before: write what a page had under `next`")
    try:
        return to_datetime(int(found[1])), int(found[2])
    except (ValueError, OverflowError, OSError):
        raise BadValue("before: write what a page had under `next`") from None
