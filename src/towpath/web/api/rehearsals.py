"""Rehearsals: what would become of the cases of a group if they were replayed now.

They need Spark and the code of flows, which this process has not. `towpath desk run` carries them out, each in a
process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import Field

from towpath.desk.desk import Desk
from towpath.desk.masks import Masks
from towpath.desk.rehearsal import MOST_CASES
from towpath.desk.rehearsal_queue import RehearsalView
from towpath.operations.model import LARGEST, Item, Named, Page, Reason, RequestBody, Why, page
from towpath.web.api.desk_request import AtWork
from towpath.web.auth import Reader, runtime_of
from towpath.web.failures import PREFIX, Before, Limit

router = APIRouter(prefix=f"{PREFIX}/desk", tags=["rehearsals"])

Group = Annotated[int, Path(ge=1, le=LARGEST)]


class Rehearse(RequestBody):
    """What is to be tried."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    code: Named | None = Field(
        None,
        description="A name among the settings `desk.code`. Without it: the file that has the flow in the directory "
        "in which `towpath desk run` was started.",
    )
    most: int = Field(10_000, ge=1, le=MOST_CASES, description="Try at most so many cases, the newest first.")
    passes_effects: bool = Field(False, description="Pass over steps with effects outside; otherwise they are refused.")
    replays: bool = Field(False, description="Then replay those that would load or be filtered.")
    why: Why


@router.post("/groups/{group}/rehearse", status_code=201, response_model=Item)
def rehearse(group: Group, sent: Rehearse, worker: AtWork) -> Response:
    """Have a flow run on the open cases of a group, without side effects: the answer names that work."""
    rehearsals = worker.runtime.rehearsals

    def act() -> RehearsalView:
        return rehearsals.ask(
            group,
            name=sent.name,
            code=sent.code,
            most=sent.most,
            passes_effects=sent.passes_effects,
            replays=sent.replays,
            **worker.by(sent.why),
        )

    def show(made: RehearsalView | None) -> Item:
        return {"is_made": True} if made is None else _item(made)  # the answer was lost: the list has it

    return worker.maker.make("rehearse group", group, act, show, status=201)


@router.get("/rehearsals")
def rehearsals(request: Request, principal: Reader, limit: Limit = 100, before: Before = None) -> Page[Item]:
    """Rehearsals, the newest first, without their results."""
    found = runtime_of(request).rehearsals.page(limit=limit + 1, before=before)
    return page(found, limit, _item)


@router.get("/rehearsals/{rehearsal}")
def show(request: Request, rehearsal: str, principal: Reader) -> Item:
    """How far a rehearsal is, and its result: how many would load, fail the same way or otherwise, with examples."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    return _shown(runtime.desk, runtime.rehearsals.show(rehearsal), masks)


@router.post("/rehearsals/{rehearsal}/abort", response_model=Item)
def abort(rehearsal: str, sent: Reason, worker: AtWork) -> Response:
    """End a rehearsal that waits or runs. What it has replayed stays replayed."""
    rehearsals = worker.runtime.rehearsals
    return worker.maker.make(
        "abort rehearsal",
        rehearsal,
        lambda: rehearsals.abort(rehearsal, **worker.by(sent.why)),
        lambda _: _shown(worker.desk, rehearsals.show(rehearsal), worker.masks),
    )


def _item(view: RehearsalView) -> Item:
    return {
        "seq": view.seq,
        "id": view.id,
        **asdict(view.asked),
        "state": view.state,
        "reason": view.reason,
        "percent": view.percent,
        "made_at": view.made_at,
        "moved_at": view.moved_at,
    }


def _shown(desk: Desk, view: RehearsalView, masks: Masks) -> Item:
    return {**_item(view), "result": None if view.result is None else masked_result(desk, view.result, masks)}


def masked_result(desk: Desk, result: Mapping[str, Any], masks: Masks) -> Item:
    """Examples quote records: without what this person may not see."""
    examples: Mapping[str, list[Item]] = result.get("examples", {})
    texts = {each["case"]: each["said"] for some in examples.values() for each in some}
    said = desk.cases.said(texts, masks=masks)
    shown = {name: [{**each, "said": said[each["case"]]} for each in some] for name, some in examples.items()}
    return {**result, "examples": shown}
