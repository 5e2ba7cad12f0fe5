"""Bulk jobs: one thing done to many cases, how far it is, and what was refused.

A job is made of all cases that match: how many those are is shown first.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import MOVES, BulkJob, ItemState, JobState
from towpath.desk.actions.jobs import JobCount
from towpath.errors import BadValue
from towpath.operations.model import cut
from towpath.web.api.desk_request import OnOne
from towpath.web.auth import FormData, Reader, Worker, runtime_of
from towpath.web.console.desk.case_actions import BULK, delay_of, meant
from towpath.web.console.desk.cases import FIELDS, CaseFilter, filter_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import before_of, enum_of, whole_of
from towpath.web.console.layout.page import page

router = APIRouter(prefix="/desk/jobs", include_in_schema=False)
bulk_router = APIRouter(prefix="/desk/bulk", include_in_schema=False)

ROWS = 50
BULK_ROWS = 10  # cases that are shown of those that are meant
COUNTED, LAST_SEQ = "counted", "last_seq"
# Not said on the page of a job: how far it may go, and what was counted, which stands there in words.
_NOT_TOLD = ("last_seq", "counted")


@router.get("")
def jobs(request: Request, principal: Reader) -> Response:
    """Jobs, the newest first."""
    text = request.query_params.get("state")
    state = enum_of(JobState, "state", text) if text else None
    found = runtime_of(request).desk.jobs.page(limit=ROWS + 1, before=before_of(request), state=state)
    shown, after = cut(found, ROWS)
    return page(request, "jobs.html", jobs=shown, next=after, states=list(JobState))


@router.get("/{job}")
def job(request: Request, job: str, principal: Reader) -> Response:
    """One job: how far it is, where its cases are now, and what became of each."""
    jobs = runtime_of(request).desk.jobs
    view = jobs.show(jobs.find(job).id)
    text = request.query_params.get("items")
    item_state = enum_of(ItemState, "items", text) if text else None
    items = jobs.items(view.job.id, limit=ROWS + 1, after=whole_of(request, "after") or 0, state=item_state)
    arguments = {name: value for name, value in view.job.arguments.items() if name not in _NOT_TOLD}
    return page(
        request,
        "job.html",
        job=view.job,
        cases_now=view.now,
        refused=view.refused,
        arguments={name: value for name, value in arguments.items() if value is not None},
        selection={name: value for name, value in view.job.selection.to_json().items() if name != "ids"},
        named=None if view.job.selection.ids is None else len(view.job.selection.ids),
        items=items[:ROWS],
        next=items[ROWS - 1].number if len(items) > ROWS else None,
        item_states=list(ItemState),
        can=_can(view.job.state),
    )


@router.post("/{job}/begin")
def begin(job: str, act: Act, principal: Worker) -> Response:
    """Begin a job that was counted."""
    return _change(act, "begin job", job, act.runtime.desk.jobs.begin, "it has begun")


@router.post("/{job}/pause")
def pause(job: str, act: Act, principal: Worker) -> Response:
    """Let a job rest after the portion that is under way."""
    return _change(act, "pause job", job, act.runtime.desk.jobs.pause, "it rests")


@router.post("/{job}/resume")
def resume(job: str, act: Act, principal: Worker) -> Response:
    """Let a job go on that is paused or has failed."""
    return _change(act, "resume job", job, act.runtime.desk.jobs.resume, "it goes on")


@router.post("/{job}/abort")
def abort(job: str, act: Act, principal: Worker) -> Response:
    """End a job: what is done stays done."""
    said = "it is aborted; what is done stays done"
    return _change(act, "abort job", job, act.runtime.desk.jobs.abort, said)


@bulk_router.get("")
def bulk(request: Request, principal: Worker) -> Response:
    """To how many cases it would be done now, and to which, before anything is done."""
    desk = runtime_of(request).desk
    kind, chosen = _kind(request.query_params.get("kind", "")), filter_of(request)
    masks = desk.masks_for(principal.role)
    selection = meant(chosen.selection, kind)
    counted = desk.jobs.count(kind, selection, _nothing(kind), masks=masks)
    label, about = BULK[kind]
    return page(
        request,
        "bulk.html",
        kind=kind,
        label=label,
        about=about,
        chosen=chosen,
        counted=counted,
        states=selection.states,
        cases=desk.cases.page(selection, limit=BULK_ROWS, masks=masks).cases,
        fields=[(name, value) for name, value in chosen.given if name != "state"],
    )


@bulk_router.post("")
def begin_bulk(act: Act, principal: Worker) -> Response:
    """Make the bulk job and begin it. It is done to what was counted; what came later is not meant."""
    form, desk = act.form, act.runtime.desk
    kind = _kind(form.one("kind"))
    chosen = CaseFilter.of((name, value) for name in FIELDS for value in form.all(name))

    arguments = _arguments(kind, form)
    selection = meant(chosen.selection, kind, is_later=arguments.get("delay_s") is not None)

    def plan() -> BulkJob:
        return desk.jobs.plan(
            kind,
            selection,
            **act.by,
            name=form.maybe("name"),
            rate_s=form.number("rate_s"),
            arguments=arguments,
            counted=_counted(form),
            begin=True,
            masks=desk.masks_for(principal.role),
        )

    return act.do(
        f"job: {kind}",
        form.text("name"),
        plan,
        lambda job: f"job {job.seq} has begun: {job.cases:,} cases",
        lambda job: f"/desk/jobs/{job.seq}",
    )


def _change(act: Act, what: str, job: str, how: OnOne, said: str) -> Response:
    id = act.runtime.desk.jobs.find(job).id
    return act.do(what, id, lambda: how(id, **act.by), said, f"/desk/jobs/{job}")


def _can(state: JobState) -> set[str]:
    """What a person may want of it now."""
    resumes = state in (JobState.PAUSED, JobState.FAILED)
    wanted = {"pause": JobState.PAUSED in MOVES[state], "abort": JobState.ABORTED in MOVES[state]}
    wanted |= {"begin": state is JobState.COUNTED, "resume": resumes}
    return {name for name, holds in wanted.items() if holds}


def _kind(text: str) -> JobKind:
    try:
        kind = JobKind(text)
    except ValueError:
        kind = JobKind.REGROUP
    if kind not in BULK:
        raise BadValue(f"kind: {text!r} is not one of {', '.join(BULK)}")
    return kind


def _nothing(kind: JobKind) -> dict[str, Any]:
    """The arguments of a kind before anything was filled in."""
    return {"rule": None, "replays": True} if kind is JobKind.CORRECT else {}


def _arguments(kind: JobKind, form: FormData) -> dict[str, Any]:
    match kind:
        case JobKind.REPLAY:
            return {"delay_s": delay_of(form)}
        case JobKind.ASSIGN:
            return {"assignee": form.maybe("assignee")}
        case JobKind.CORRECT:
            return {"rule": form.whole("rule"), "replays": form.is_ticked("replays")}
        case _:
            return {}


def _counted(form: FormData) -> JobCount | None:
    """What the page has shown."""
    cases, last = form.whole(COUNTED), form.whole(LAST_SEQ)
    return None if cases is None or last is None or cases < 0 or last < 0 else JobCount(cases, last)
