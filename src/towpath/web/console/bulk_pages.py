"""One thing for all cases that match: how many that are is shown first, then it becomes a bulk job."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.delays import seconds
from towpath.desk.job import Job
from towpath.desk.job_state import JobKind
from towpath.desk.jobs import Counted
from towpath.errors import BadValue
from towpath.web.asking import Worker, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.case_acts import BULK, meant
from towpath.web.console.case_filter import FIELDS, CaseFilter
from towpath.web.console.case_pages import filter_of
from towpath.web.console.pages import page
from towpath.web.form import Form

router = APIRouter(prefix="/desk/bulk", include_in_schema=False)

ROWS = 10  # cases that are shown of those that are meant
COUNTED, LAST_SEQ = "counted", "last_seq"


@router.get("")
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
        cases=desk.cases.page(selection, limit=ROWS, masks=masks).cases,
        fields=[(name, value) for name, value in chosen.given if name != "state"],
    )


@router.post("")
def begin(act: Act, principal: Worker) -> Response:
    """Make the bulk job and begin it. It is done to what was counted; what came later is not meant."""
    form, desk = act.form, act.runtime.desk
    kind = _kind(form.one("kind"))
    chosen = CaseFilter.of((name, value) for name in FIELDS for value in form.all(name))

    arguments = _arguments(kind, form)
    selection = meant(chosen.selection, kind, is_later=arguments.get("delay_s") is not None)

    def plan() -> Job:
        return desk.jobs.plan(
            kind,
            selection,
            who=principal.name,
            why=act.why,
            name=form.maybe("name"),
            rate_s=form.number("rate_s"),
            arguments=arguments,
            counted=_counted(form),
            begin=True,
            masks=desk.masks_for(principal.role),
        )

    return act.do(
        principal,
        f"job: {kind}",
        form.text("name"),
        plan,
        lambda job: f"job {job.seq} has begun: {job.cases:,} cases",
        lambda job: f"/desk/jobs/{job.seq}",
    )


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


def _arguments(kind: JobKind, form: Form) -> dict[str, Any]:
    match kind:
        case JobKind.REPLAY:
            delay = form.maybe("delay")
            return {"delay_s": None if delay is None else seconds(delay, "the delay")}
        case JobKind.ASSIGN:
            return {"assignee": form.maybe("assignee")}
        case JobKind.CORRECT:
            return {"rule": form.whole("rule"), "replays": form.is_ticked("replays")}
        case _:
            return {}


def _counted(form: Form) -> Counted | None:
    """What the page has shown."""
    cases, last = form.whole(COUNTED), form.whole(LAST_SEQ)
    return None if cases is None or last is None or cases < 0 or last < 0 else Counted(cases, last)
