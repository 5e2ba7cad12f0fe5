"""Bulk jobs: one thing done to many cases, how far it is, and what was refused."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.principal import Principal
from towpath.desk.job_state import MOVES, ItemState, JobState
from towpath.errors import BadValue
from towpath.web.asking import Reader, Worker, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, cut, whole_of
from towpath.web.console.pages import page
from towpath.web.working import OnOne

router = APIRouter(prefix="/desk/jobs", include_in_schema=False)

ROWS = 50
# Not said on the page of a job: how far it may go, and what was counted, which stands there in words.
_NOT_TOLD = ("last_seq", "counted")


@router.get("")
def jobs(request: Request, principal: Reader) -> Response:
    """Jobs, the newest first."""
    text = request.query_params.get("state", "")
    try:
        state = JobState(text) if text else None
    except ValueError:
        raise BadValue(f"state: {text!r} is not one of {', '.join(JobState)}") from None
    found = runtime_of(request).desk.jobs.page(limit=ROWS + 1, before=before_of(request), state=state)
    shown, after = cut(found, ROWS)
    return page(request, "jobs.html", jobs=shown, next=after, states=list(JobState))


@router.get("/{job}")
def job(request: Request, job: str, principal: Reader) -> Response:
    """One job: how far it is, where its cases are now, and what became of each."""
    jobs = runtime_of(request).desk.jobs
    view = jobs.show(jobs.find(job).id)
    item_state = _item_state(request.query_params.get("items", ""))
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
    return _change(act, principal, "begin job", job, act.runtime.desk.jobs.begin, "it has begun")


@router.post("/{job}/pause")
def pause(job: str, act: Act, principal: Worker) -> Response:
    """Let a job rest after the portion that is under way."""
    return _change(act, principal, "pause job", job, act.runtime.desk.jobs.pause, "it rests")


@router.post("/{job}/resume")
def resume(job: str, act: Act, principal: Worker) -> Response:
    """Let a job go on that is paused or has failed."""
    return _change(act, principal, "resume job", job, act.runtime.desk.jobs.resume, "it goes on")


@router.post("/{job}/abort")
def abort(job: str, act: Act, principal: Worker) -> Response:
    """End a job: what is done stays done."""
    said = "it is aborted; what is done stays done"
    return _change(act, principal, "abort job", job, act.runtime.desk.jobs.abort, said)


def _change(act: Act, principal: Principal, what: str, job: str, how: OnOne, said: str) -> Response:
    id = act.runtime.desk.jobs.find(job).id
    return act.do(principal, what, id, lambda: how(id, who=principal.name, why=act.why), said, f"/desk/jobs/{job}")


def _can(state: JobState) -> set[str]:
    """What a person may want of it now."""
    resumes = state in (JobState.PAUSED, JobState.FAILED)
    wanted = {"pause": JobState.PAUSED in MOVES[state], "abort": JobState.ABORTED in MOVES[state]}
    wanted |= {"begin": state is JobState.COUNTED, "resume": resumes}
    return {name for name, holds in wanted.items() if holds}


def _item_state(text: str) -> ItemState | None:
    try:
        return ItemState(text) if text else None
    except ValueError:
        raise BadValue(f"items: {text!r} is not one of {', '.join(ItemState)}") from None
