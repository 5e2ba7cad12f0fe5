"""Groups: cases of one cause, why they are together, what people think of it; and rehearsals of their replay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.roles import Principal
from towpath.core.clock import to_micros
from towpath.desk.actions.actions import JobKind
from towpath.desk.cases.model import CaseSelection
from towpath.desk.groups.model import MOVES, Archive, Group, GroupState
from towpath.desk.groups.service import Split
from towpath.desk.groups.store import newest_first
from towpath.desk.masks import MASK, Masks
from towpath.desk.record_queries import DeskMetrics
from towpath.desk.rehearsal import MOST_CASES, PASSING, RehearsalVerdict
from towpath.desk.rehearsal_queue import RehearsalState, RehearsalView
from towpath.errors import BadValue
from towpath.flow.failures import ErrorCode
from towpath.operations.model import cut
from towpath.policy import seconds
from towpath.web.api.desk_request import OnOne, ids_of
from towpath.web.api.groups import mark_text, read_mark
from towpath.web.api.rehearsals import masked_result
from towpath.web.auth import FormData, Reader, Worker, runtime_of
from towpath.web.console.desk.case_actions import BULK, CASE, POSSIBLE
from towpath.web.console.desk.cases import CaseFilter
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import before_of, chosen, enum_of, in_common, utc_time, whole_of
from towpath.web.console.layout.page import page
from towpath.web.failures import Number

if TYPE_CHECKING:
    from towpath.runtime import Runtime


router = APIRouter(prefix="/desk/groups", include_in_schema=False)
rehearsal_router = APIRouter(prefix="/desk", include_in_schema=False)

ROWS = 50
CASES = 20  # that are shown with a group
LONGEST_SEARCH = 300
MOST_REHEARSALS = 50  # in which those of a group are looked for, the newest
REHEARSALS_SHOWN = 3  # with a group
MOST_REHEARSED = 10_000  # cases, when the form does not say

_TONES = {
    RehearsalVerdict.LOADS: "good",
    RehearsalVerdict.FILTERED: "good",
    RehearsalVerdict.SAME: "bad",
    RehearsalVerdict.OTHERWISE: "bad",
}
# As results name them, in words, and how they look.
VERDICTS = tuple((verdict.name.lower(), verdict.value, _TONES.get(verdict, "quiet")) for verdict in RehearsalVerdict)


@router.get("")
def groups(request: Request, principal: Reader) -> Response:
    """Groups, the one with the newest error first, with how many errors came in each of the last 24 hours."""
    return in_common(request, principal, _groups)


@router.get("/{number}")
def group(request: Request, number: Number, principal: Reader) -> Response:
    """One group: why its cases are together, the newest of them, rehearsals, and what was done to it."""
    runtime = runtime_of(request)
    desk = runtime.desk
    masks = desk.masks_for(principal.role)
    view = desk.groups.show(number)
    rehearsals = of_group(runtime, number, masks)
    return page(
        request,
        "group.html",
        group=view.group,
        title=title_of(view.group, masks),
        fingerprints=[(each, _made_of(each.made_of, view.group, masks)) for each in view.fingerprints],
        history=list(reversed(view.history)),
        trend=desk.groups.trends([number])[number],
        cases=desk.cases.page(CaseSelection(group=number), limit=CASES, masks=masks).cases,
        chosen=CaseFilter((("group", str(number)),)),
        rehearsals=rehearsals,
        verdicts=VERDICTS,
        bulk=_bulk(view.group),
        moves=MOVES[view.group.state],
        codes=sorted(runtime.settings.desk.code),
    )


@router.post("/{number}/look")
def look(number: Number, act: Act, principal: Worker) -> Response:
    """Say that somebody knows of it and is at work on it: *ongoing*."""
    return _change(act, "look into group", number, act.runtime.desk.groups.look, "it is ongoing now")


@router.post("/{number}/resolve")
def resolve(number: Number, act: Act, principal: Worker) -> Response:
    """Say that its cause is mended; an error that comes now brings it back."""
    said = "it is resolved; an error that comes now brings it back"
    return _change(act, "resolve group", number, act.runtime.desk.groups.resolve, said)


@router.post("/{number}/archive")
def archive(number: Number, act: Act, principal: Worker) -> Response:
    """Say that nobody wants to hear of it until so many more, a time, or a rate."""
    how = partial(act.runtime.desk.groups.archive, archive=_archive(act.form))
    return _change(act, "archive group", number, how, "it is archived")


@router.post("/{number}/assign")
def assign(number: Number, act: Act, principal: Worker) -> Response:
    """Give a group to a person, or to nobody."""
    assignee = act.form.maybe("assignee")
    how = partial(act.runtime.desk.groups.assign, assignee=assignee)
    return _change(act, "assign group", number, how, f"given to {assignee or 'nobody'}")


@router.post("/{number}/note")
def note(number: Number, act: Act, principal: Worker) -> Response:
    """Keep a remark with a group."""
    groups = act.runtime.desk.groups
    return act.do("note group", number, lambda: groups.note(number, act.why, who=principal.name), "noted")


@router.post("/{number}/merge")
def merge(number: Number, act: Act, principal: Worker) -> Response:
    """Let its cases, and errors that come, count as those of another group."""
    into = act.form.whole("into")
    if into is None:
        raise BadValue("into: give the number of another group")
    how = partial(act.runtime.desk.groups.merge, into=into)
    return _change(act, "merge group", number, how, f"group {number} is a part of this one", f"{into}")


@router.post("/{number}/unmerge")
def unmerge(number: Number, act: Act, principal: Worker) -> Response:
    """Make a group that was merged its own again."""
    how = act.runtime.desk.groups.unmerge
    return _change(act, "unmerge group", number, how, "it is a group of its own again")


@router.post("/{number}/split")
def split(number: Number, act: Act, principal: Worker) -> Response:
    """Make a group of its own of the cases that are ticked, or of all of one fingerprint."""
    form, desk = act.form, act.runtime.desk
    fingerprint, names = form.maybe("fingerprint"), form.all(CASE)
    if fingerprint is None and not names:
        raise BadValue("tick at least one case")

    def make() -> Split:
        ids = ids_of(desk, names) if fingerprint is None else None
        by = act.by
        return desk.groups.split(number, ids=ids, fingerprint=fingerprint, title=form.maybe("title"), **by)

    def said(made: Split) -> str:
        rest = "" if made.job_id is None else "; a bulk job brings the others"
        return f"{made.moved:,} cases of group {number} are this group now{rest}"

    return act.do("split group", number, make, said, lambda made: f"/desk/groups/{made.group.id}")


@rehearsal_router.get("/rehearsals")
def rehearsals(request: Request, principal: Reader) -> Response:
    """Rehearsals, the newest first."""
    found = runtime_of(request).rehearsals.page(limit=ROWS + 1, before=before_of(request))
    shown, after = cut(found, ROWS)
    return page(request, "rehearsals.html", rehearsals=shown, next=after)


@rehearsal_router.get("/rehearsals/{rehearsal}")
def rehearsal(request: Request, rehearsal: str, principal: Reader) -> Response:
    """How far a rehearsal is, and what it has found."""
    runtime = runtime_of(request)
    view = runtime.rehearsals.show(rehearsal)
    return page(
        request,
        "rehearsal.html",
        rehearsal=view,
        result=_result(runtime, view, runtime.desk.masks_for(principal.role)),
        verdicts=VERDICTS,
        passing=passing(view),
    )


@rehearsal_router.post("/groups/{number}/rehearse")
def rehearse(number: Number, act: Act, principal: Worker) -> Response:
    """Have the flow's present code run on the open cases of a group, without side effects."""
    form, rehearsals = act.form, act.runtime.rehearsals
    most = form.whole("most") or MOST_REHEARSED
    if not 1 <= most <= MOST_CASES:
        raise BadValue(f"most: it is from 1 to {MOST_CASES}")
    return act.do(
        "rehearse group",
        number,
        lambda: rehearsals.ask(
            number,
            **act.by,
            code=form.maybe("code"),
            most=most,
            passes_effects=form.is_ticked("passes_effects"),
            replays=form.is_ticked("replays"),
        ),
        "the rehearsal is asked for: its result appears here",
        f"/desk/groups/{number}",
    )


@rehearsal_router.post("/rehearsals/{rehearsal}/abort")
def abort(rehearsal: str, act: Act, principal: Worker) -> Response:
    """End a rehearsal that waits or runs. What it has replayed stays replayed."""
    rehearsals = act.runtime.rehearsals
    return act.do(
        "abort rehearsal", rehearsal, lambda: rehearsals.abort(rehearsal, **act.by), "the rehearsal is aborted"
    )


def title_of(group: Group, masks: Masks) -> str:
    """A title is the message of an error, and nobody can tell what of it is hidden in one of its many records."""
    return f"{group.exception}: {MASK}" if masks.of(group.flow) else group.headline


def of_group(runtime: Runtime, number: int, masks: Masks) -> list[tuple[RehearsalView, Mapping[str, Any] | None, int]]:
    """The last rehearsals of a group, each with its result and how many would pass."""
    newest = runtime.rehearsals.page(limit=MOST_REHEARSALS)
    ids = [view.id for view in newest if view.asked.group == number][:REHEARSALS_SHOWN]
    views = [runtime.rehearsals.show(id) for id in ids]
    return [(view, _result(runtime, view, masks), passing(view)) for view in views]


def passing(view: RehearsalView) -> int:
    """How many cases would load or be filtered, if it has found that out and not replayed them."""
    if view.state is not RehearsalState.FINISHED or view.result is None or view.asked.replays:
        return 0
    counts: Mapping[str, int] = view.result.get("counts", {})
    return sum(counts.get(verdict.name.lower(), 0) for verdict in PASSING)


def _groups(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    desk = runtime.desk
    masks = desk.masks_for(principal.role)
    given = chosen(request, "flow", "text", "before")
    state = request.query_params.get("state")
    before = given.pop("before", None)
    found = desk.groups.page(
        state=enum_of(GroupState, "state", state) if state else None,
        code=whole_of(request, "code"),
        limit=ROWS + 1,
        before=None if before is None else read_mark(before),
        masks=masks,
        flow=given.get("flow"),
        text=given.get("text", "")[:LONGEST_SEARCH] or None,
    )
    shown = found[:ROWS]
    return page(
        request,
        "groups.html",
        found=[(group, title_of(group, masks)) for group in shown],
        trends=desk.groups.trends([group.id for group in shown]),
        next=mark_text(newest_first(shown[-1])) if len(found) > ROWS else None,
        states=list(GroupState),
        codes=[int(code) for code in ErrorCode if code.is_handled or code is ErrorCode.OFFSET_NOT_AVAILABLE],
        flows=sorted({flow for flow, _, _ in DeskMetrics(runtime.database).cases()}),
    )


def _made_of(made_of: dict[str, Any], group: Group, masks: Masks) -> dict[str, Any]:
    return {**made_of, "message": MASK} if masks.of(group.flow) and "message" in made_of else made_of


def _bulk(group: Group) -> list[tuple[JobKind, str, int]]:
    """What can be done to all its cases, and how many those are."""
    found = [(kind, BULK[kind][0], sum(group.cases[state] for state in POSSIBLE[kind.value])) for kind in BULK]
    return [(kind, label, count) for kind, label, count in found if count]


def _change(act: Act, what: str, number: int, how: OnOne, said: str, to: str | None = None) -> Response:
    return act.do(what, number, lambda: how(number, **act.by), said, "" if to is None else f"/desk/groups/{to}")


def _archive(form: FormData) -> Archive:
    """Until when; nothing filled in: for ever."""
    until, per = form.maybe("until"), form.maybe("per")
    return Archive(
        more=form.whole("more"),
        until_us=None if until is None else to_micros(utc_time("until", until)),
        rate=form.whole("rate"),
        per_s=None if per is None else seconds(per, "the time of a rate"),
    )


def _result(runtime: Runtime, view: RehearsalView, masks: Masks) -> Mapping[str, Any] | None:
    return None if view.result is None else masked_result(runtime.desk, view.result, masks)
