"""Complaints: what readers say about documents, and what is done about it. A form for readers, where that is set."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from towpath.access.role import Scope
from towpath.catalog.complaint import NewComplaint
from towpath.catalog.complaint_state import OPEN, ComplaintState
from towpath.catalog.complaints import LONGEST
from towpath.errors import BadValue
from towpath.web.asking import DataKeeper, Reader, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, cut, one_of
from towpath.web.console.pages import page
from towpath.web.form import form_of
from towpath.web.public_routes import admitted, may_complain

router = APIRouter(include_in_schema=False)

ROWS = 50
MOST_EVENTS = 20


@router.get("/complain")
def complain_page(request: Request, allowed: Annotated[None, Depends(may_complain)]) -> Response:
    """Where a reader says what is wrong with a document; open to all where `complaints.public` is set."""
    asked = {name: request.query_params.get(name, "")[:most] for name, most in LONGEST.items()}
    return page(request, "complain.html", given=asked, wrong="", number=None, longest=LONGEST)


@router.post("/complain")
def complain(request: Request, admitted: Annotated[None, Depends(admitted)]) -> Response:
    """Write down what a reader says."""
    form = form_of(request)
    given = {name: form.lines(name) for name in LONGEST}
    try:
        made = runtime_of(request).complaints.make(_about(given))
    except BadValue as error:
        return page(request, "complain.html", status=422, given=given, wrong=str(error), number=None, longest=LONGEST)
    return page(request, "complain.html", status=202, given=given, wrong="", number=made.number, longest=LONGEST)


@router.get("/complaints")
def complaints(request: Request, principal: Reader) -> Response:
    """What readers say, the newest first."""
    runtime = runtime_of(request)
    state = one_of(request, "state", ComplaintState)
    found = runtime.complaints.list(state=state, limit=ROWS + 1, before=before_of(request))
    shown, after = cut(found, ROWS)
    return page(
        request,
        "complaints.html",
        complaints=shown,
        next=after,
        states=list(ComplaintState),
        is_public=runtime.settings.complaints.public,
        longest=LONGEST,
    )


@router.post("/complaints/add")
def make(act: Act, principal: DataKeeper) -> Response:
    """Write down what a reader has said by other ways."""
    about = _about({name: act.form.lines(name) for name in LONGEST})
    return act.do(
        principal,
        "make complaint",
        f"{about.target} {about.document}",
        lambda: act.runtime.complaints.make(about, who=principal.name),
        "written down",
        lambda made: f"/complaints/{made.number}",
    )


@router.get("/complaints/{number}")
def complaint(request: Request, number: int, principal: Reader) -> Response:
    """One complaint, the record behind its document, and what can be done."""
    runtime = runtime_of(request)
    found = runtime.complaints.show(number)
    with runtime.database.read() as tx:
        events = runtime.event_log.page(tx, limit=MOST_EVENTS, subject=str(number), kind="complaint_changed_by_hand")
    return page(
        request,
        "complaint.html",
        complaint=found,
        others=runtime.complaints.others(found),
        is_open=found.state in OPEN,
        shows_contact=Scope.DATA_WRITE in principal.scopes,
        events=events,
    )


@router.post("/complaints/{number}/take")
def take(number: int, act: Act, principal: DataKeeper) -> Response:
    """Say that you are at it."""
    take = act.runtime.complaints.take
    return act.do(
        principal, "take complaint", number, lambda: take(number, who=principal.name, why=act.why), "it is yours"
    )


@router.post("/complaints/{number}/dismiss")
def dismiss(number: int, act: Act, principal: DataKeeper) -> Response:
    """Settle it: nothing is to be done."""
    dismiss, reply = act.runtime.complaints.dismiss, act.form.lines("reply")
    return act.do(
        principal,
        "dismiss complaint",
        number,
        lambda: dismiss(number, reply=reply, who=principal.name, why=act.why),
        "dismissed",
    )


@router.post("/complaints/{number}/block")
def block(number: int, act: Act, principal: DataKeeper) -> Response:
    """Settle it by a block rule for the key of its record."""
    principal.check(Scope.POLICY_WRITE)
    form, block = act.form, act.runtime.complaints.block
    return act.do(
        principal,
        "block after complaint",
        number,
        lambda: block(number, until=form.text("until"), who=principal.name, why=act.why, reply=form.maybe("reply")),
        lambda made: f"settled by block rule {made.rule}",
    )


@router.post("/complaints/{number}/rerun")
def rerun(number: int, act: Act, principal: DataKeeper) -> Response:
    """Settle it by sending its record to its topic again."""
    form, rerun = act.form, act.runtime.complaints.rerun
    return act.do(
        principal,
        "re-run after complaint",
        number,
        lambda: rerun(number, who=principal.name, why=act.why, reply=form.maybe("reply")),
        "its record was sent again",
    )


def _about(given: dict[str, str]) -> NewComplaint:
    said = {name: given[name] for name in ("target", "document", "said")}
    return NewComplaint(**said, contact=given["contact"] or None, flow=given["flow"] or None)
