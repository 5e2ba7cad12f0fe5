"""Bulk jobs: one thing done to many cases."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from towpath.desk.actions.job_store import BulkJob, ItemState, JobState
from towpath.desk.cases.model import CaseSelection
from towpath.desk.desk import Desk
from towpath.operations.case_models import Counted, JobAsked, NewJob
from towpath.operations.cases import item_item, job_item, job_view
from towpath.operations.model import LARGEST, Item, Page, Reason, page
from towpath.web.api.desk_request import AtWork
from towpath.web.auth import Reader, runtime_of
from towpath.web.failures import PREFIX, Before, Limit

router = APIRouter(prefix=f"{PREFIX}/desk", tags=["jobs"])


@router.get("/jobs")
def jobs(
    request: Request, principal: Reader, state: JobState | None = None, limit: Limit = 100, before: Before = None
) -> Page[Item]:
    """Jobs, the newest first."""
    found = runtime_of(request).desk.jobs.page(limit=limit + 1, before=before, state=state)
    return page(found, limit, job_item)


@router.post("/jobs/count")
def count(request: Request, sent: JobAsked, principal: Reader) -> Counted:
    """A dry run: to how many cases it would be done now. Changes nothing."""
    desk = runtime_of(request).desk
    masks = desk.masks_for(principal.role)
    found = desk.jobs.count(sent.kind, _selection(desk, sent), sent.arguments(), masks=masks)
    return Counted(cases=found.cases)


@router.post("/jobs", status_code=201, response_model=Item)
def plan(sent: NewJob, worker: AtWork) -> Response:
    """Name a job and count its cases; with `begin`, begin it."""

    def act() -> BulkJob:
        return worker.desk.jobs.plan(
            sent.kind,
            _selection(worker.desk, sent),
            name=sent.name,
            rate_s=sent.rate_s,
            arguments=sent.arguments(),
            begin=sent.begin,
            masks=worker.masks,
            **worker.by(sent.why),
        )

    def show(made: BulkJob | None) -> Item:
        return {"is_made": True} if made is None else job_item(made)  # the answer was lost: the list of jobs has it

    return worker.maker.make(f"job: {sent.kind}", sent.name or "", act, show, status=201)


@router.get("/jobs/{job}")
def show(request: Request, job: str, principal: Reader) -> Item:
    """One job, with what has become of its cases; by its number, its id or a unique beginning of that."""
    jobs = runtime_of(request).desk.jobs
    return job_view(jobs.show(jobs.find(job).id))


@router.get("/jobs/{job}/items")
def items(
    request: Request,
    job: str,
    principal: Reader,
    state: ItemState | None = None,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="Go on where a page ended: its `next`.")] = 0,
) -> Page[Item]:
    """What came of it for each case, in their order."""
    jobs = runtime_of(request).desk.jobs
    found = jobs.items(jobs.find(job).id, limit=limit + 1, after=after, state=state)
    part = found[:limit]
    return Page(items=[item_item(each) for each in part], next=part[-1].number if len(found) > limit else None)


@router.post("/jobs/{job}/begin", response_model=Item)
def begin(job: str, sent: Reason, worker: AtWork) -> Response:
    """Begin a job that was counted."""
    return worker.job("begin job", job, sent.why, worker.desk.jobs.begin)


@router.post("/jobs/{job}/pause", response_model=Item)
def pause(job: str, sent: Reason, worker: AtWork) -> Response:
    """Let a job rest."""
    return worker.job("pause job", job, sent.why, worker.desk.jobs.pause)


@router.post("/jobs/{job}/resume", response_model=Item)
def resume(job: str, sent: Reason, worker: AtWork) -> Response:
    """Let a job go on that is paused or has failed."""
    return worker.job("resume job", job, sent.why, worker.desk.jobs.resume)


@router.post("/jobs/{job}/abort", response_model=Item)
def abort(job: str, sent: Reason, worker: AtWork) -> Response:
    """End a job: what is done stays done."""
    return worker.job("abort job", job, sent.why, worker.desk.jobs.abort)


def _selection(desk: Desk, sent: JobAsked) -> CaseSelection:
    """With the ids of cases that are named by their number, or by the beginning of their id."""
    found = sent.selection.selection()
    return found if found.ids is None else found.within(ids=tuple(desk.cases.find(each).id for each in found.ids))
