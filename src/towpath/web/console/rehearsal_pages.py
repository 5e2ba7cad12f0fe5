"""Rehearsals: what would become of the cases of a group if they were replayed now, asked for and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from towpath.desk.masking import Masks
from towpath.desk.rehearsal import MOST_CASES, PASSING, Verdict
from towpath.desk.rehearsals import RehearsalState, RehearsalView
from towpath.errors import BadValue
from towpath.web.asking import Reader, Worker, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, cut
from towpath.web.console.pages import page
from towpath.web.model import LARGEST
from towpath.web.rehearsal_routes import masked

if TYPE_CHECKING:
    from towpath.runtime import Runtime

router = APIRouter(prefix="/desk", include_in_schema=False)

ROWS = 50
LOOKED_THROUGH = 50  # of the newest, for those of one group
SHOWN = 3  # of a group
MOST = 10_000

Number = Annotated[int, Path(ge=1, le=LARGEST)]
Shown = tuple[RehearsalView, Mapping[str, Any] | None]

_TONES = {Verdict.LOADS: "good", Verdict.FILTERED: "good", Verdict.SAME: "bad", Verdict.OTHERWISE: "bad"}
# As results name them, in words, and how they look.
VERDICTS = tuple((verdict.name.lower(), verdict.value, _TONES.get(verdict, "quiet")) for verdict in Verdict)


@router.get("/rehearsals")
def rehearsals(request: Request, principal: Reader) -> Response:
    """Rehearsals, the newest first."""
    found = runtime_of(request).rehearsals.page(limit=ROWS + 1, before=before_of(request))
    shown, after = cut(found, ROWS)
    return page(request, "rehearsals.html", rehearsals=shown, next=after)


@router.get("/rehearsals/{rehearsal}")
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


@router.post("/groups/{number}/rehearse")
def rehearse(number: Number, act: Act, principal: Worker) -> Response:
    """Have the flow's present code run on the open cases of a group, without side effects."""
    form, rehearsals = act.form, act.runtime.rehearsals
    most = form.whole("most") or MOST
    if not 1 <= most <= MOST_CASES:
        raise BadValue(f"most: it is from 1 to {MOST_CASES}")
    return act.do(
        principal,
        "rehearse group",
        number,
        lambda: rehearsals.ask(
            number,
            who=principal.name,
            why=act.why,
            code=form.maybe("code"),
            most=most,
            passes_effects=form.is_ticked("passes_effects"),
            replays=form.is_ticked("replays"),
        ),
        "the rehearsal is asked for: its result appears here",
        f"/desk/groups/{number}",
    )


@router.post("/rehearsals/{rehearsal}/abort")
def abort(rehearsal: str, act: Act, principal: Worker) -> Response:
    """End a rehearsal that waits or runs. What it has replayed stays replayed."""
    rehearsals = act.runtime.rehearsals
    return act.do(
        principal,
        "abort rehearsal",
        rehearsal,
        lambda: rehearsals.abort(rehearsal, who=principal.name, why=act.why),
        "the rehearsal is aborted",
    )


def of_group(runtime: Runtime, number: int, masks: Masks) -> list[tuple[RehearsalView, Mapping[str, Any] | None, int]]:
    """The last rehearsals of a group, each with its result and how many would pass."""
    newest = runtime.rehearsals.page(limit=LOOKED_THROUGH)
    ids = [view.id for view in newest if view.asked.group == number][:SHOWN]
    views = [runtime.rehearsals.show(id) for id in ids]
    return [(view, _result(runtime, view, masks), passing(view)) for view in views]


def passing(view: RehearsalView) -> int:
    """How many cases would load or be filtered, if it has found that out and not replayed them."""
    if view.state is not RehearsalState.FINISHED or view.result is None or view.asked.replays:
        return 0
    counts: Mapping[str, int] = view.result.get("counts", {})
    return sum(counts.get(verdict.name.lower(), 0) for verdict in PASSING)


def _result(runtime: Runtime, view: RehearsalView, masks: Masks) -> Mapping[str, Any] | None:
    return None if view.result is None else masked(runtime.desk, view.result, masks)
