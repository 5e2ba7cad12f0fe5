"""Cases: looking at them, and what is done to some of them by name."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from towpath.db.paging import LOOK_S
from towpath.desk.edits import EditResult
from towpath.operations.case_models import (
    Assigned,
    Cases,
    ChosenCount,
    ChosenExport,
    ChosenPage,
    Corrected,
    Counted,
    Decided,
    Edited,
    Noted,
    Performed,
    Replayed,
    Restored,
)
from towpath.operations.cases import CaseExport, ExportFormat, case_item, case_view, headers_item, text_or_base64
from towpath.operations.model import Item, Page
from towpath.web.api.desk_request import AtWork, id_of
from towpath.web.auth import Reader, runtime_of
from towpath.web.failures import PREFIX

router = APIRouter(prefix=f"{PREFIX}/desk", tags=["cases"])

MEDIA = {ExportFormat.JSON: "application/x-ndjson", ExportFormat.CSV: "text/csv; charset=utf-8"}


@router.get("/cases")
def cases(request: Request, principal: Reader, chosen: Annotated[ChosenPage, Query()]) -> Page[Item]:
    """Cases, the newest first. Where no index gives them, a page has what is found in a moment, and a `next`."""
    desk = runtime_of(request).desk
    found = desk.cases.page(
        chosen.selection(),
        limit=chosen.limit,
        before=chosen.before,
        masks=desk.masks_for(principal.role),
        look_s=LOOK_S,
    )
    return Page(items=[case_item(case) for case in found.cases], next=found.next)


@router.get("/cases/count")
def count(request: Request, principal: Reader, chosen: Annotated[ChosenCount, Query()]) -> Counted:
    """How many cases match."""
    desk = runtime_of(request).desk
    masks = desk.masks_for(principal.role)
    return Counted(cases=desk.cases.count(chosen.selection(), most=chosen.most, masks=masks))


@router.get("/export", response_class=StreamingResponse)
def export(request: Request, principal: Reader, chosen: Annotated[ChosenExport, Query()]) -> StreamingResponse:
    """All matching cases with their bodies, as JSON lines or CSV. It is written while it is read."""
    desk = runtime_of(request).desk
    lines = CaseExport(desk.cases).lines(chosen.selection(), chosen.form, masks=desk.masks_for(principal.role))
    return StreamingResponse(lines, media_type=MEDIA[chosen.form])


@router.post("/cases/replay", response_model=Performed)
def replay(sent: Replayed, worker: AtWork) -> Response:
    """Send records back into their flows, at once or after a delay."""
    return worker.cases("replay", sent, partial(worker.desk.operate.replay, delay_s=sent.delay_s))


@router.post("/cases/resend", response_model=Performed)
def resend(sent: Cases, worker: AtWork) -> Response:
    """Send records to their source again, where they count as new ones."""
    return worker.cases("resend", sent, worker.desk.operate.resend)


@router.post("/cases/recall", response_model=Performed)
def recall(sent: Cases, worker: AtWork) -> Response:
    """Undo replays: what still waits in its lane, or was not read by its flow."""
    return worker.cases("recall", sent, worker.desk.operate.recall)


@router.post("/cases/abandon", response_model=Performed)
def abandon(sent: Cases, worker: AtWork) -> Response:
    """Dismiss records for good."""
    return worker.cases("abandon", sent, worker.desk.operate.abandon)


@router.post("/cases/open", response_model=Performed)
def open_(sent: Cases, worker: AtWork) -> Response:
    """Take back what a rule has ignored, or what is parked."""
    return worker.cases("open", sent, worker.desk.operate.open)


@router.post("/cases/assign", response_model=Performed)
def assign(sent: Assigned, worker: AtWork) -> Response:
    """Give cases to a person, or to nobody."""
    return worker.cases("assign", sent, partial(worker.desk.operate.assign, assignee=sent.assignee))


@router.post("/cases/correct", response_model=Performed)
def correct(sent: Corrected, worker: AtWork) -> Response:
    """Change records as rules say that are on, and as the one that is named, and send them back."""
    act = partial(worker.desk.operate.correct, rule=sent.rule, replays=sent.replays, masks=worker.masks)
    return worker.cases("correct", sent, act)


@router.get("/cases/{case}")
def show(request: Request, case: str, principal: Reader) -> Item:
    """One case with its attempts, body, edits and history; by its number, its id or a unique beginning of that."""
    desk = runtime_of(request).desk
    return case_view(desk.cases.show(id_of(desk, case), masks=desk.masks_for(principal.role)))


@router.get("/cases/{case}/body", response_class=Response)
def body(request: Request, case: str, principal: Reader) -> Response:
    """The body that goes out next, as it is. 204: there is none any more."""
    desk = runtime_of(request).desk
    found = desk.cases.body(desk.cases.find(case).id, masks=desk.masks_for(principal.role))
    if found is None:
        return Response(status_code=204)
    return Response(found, media_type="application/octet-stream", headers={"Content-Disposition": "attachment"})


@router.get("/cases/{case}/record")
def record(request: Request, case: str, principal: Reader) -> Item:
    """The error record at its offset, while the log has it; `record` is null when it has not."""
    desk = runtime_of(request).desk
    found = desk.cases.record(desk.cases.find(case), masks=desk.masks_for(principal.role))
    if found is None:
        return {"record": None}
    shown = {**text_or_base64("key", found.key), **text_or_base64("value", found.value)}
    place = {"topic": found.topic, "partition": found.partition, "offset": found.offset}
    return {"record": {**place, **shown, "headers": headers_item(found.headers)}}


@router.post("/cases/{case}/note", response_model=Item)
def note(case: str, sent: Noted, worker: AtWork) -> Response:
    """Keep a remark with a case."""
    return worker.case("note", case, lambda id: worker.desk.operate.note(id, sent.text, who=worker.principal.name))


@router.post("/cases/{case}/edit", response_model=Item)
def edit(case: str, sent: Edited, worker: AtWork) -> Response:
    """Change the copy that goes out next. Refused when the case is not as it was `seen`, or the body does not fit."""

    def act(id: str) -> EditResult:
        # Who sees only stars would write them into the record.
        return worker.desk.edits.edit(
            id, sent.bytes(), seen=sent.seen.seen(), masks=worker.masks, **worker.by(sent.why)
        )

    return worker.case("edit", case, act)


@router.post("/cases/{case}/agree", response_model=Item)
def agree(case: str, sent: Decided, worker: AtWork) -> Response:
    """Let an edit go out that another person has proposed."""

    def act(id: str) -> object:
        return worker.desk.edits.agree(id, sent.edit, masks=worker.masks, **worker.by(sent.why))

    return worker.case("agree to edit", case, act)


@router.post("/cases/{case}/refuse", response_model=Item)
def refuse(case: str, sent: Decided, worker: AtWork) -> Response:
    """Do not let a proposed edit go out."""
    edits = worker.desk.edits
    return worker.case("refuse edit", case, lambda id: edits.refuse(id, sent.edit, **worker.by(sent.why)))


@router.post("/cases/{case}/restore", response_model=Item)
def restore(case: str, sent: Restored, worker: AtWork) -> Response:
    """Let the record itself go out next, and none of its edits."""
    edits = worker.desk.edits
    return worker.case("restore", case, lambda id: edits.restore(id, seen=sent.seen.seen(), **worker.by(sent.why)))
