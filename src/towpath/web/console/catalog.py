"""Data sets and complaints: what runs have made, with its family and files; and what readers say about documents.

Where the settings say so, readers have a form of their own for that.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, BinaryIO
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse

from towpath.access.roles import Scope
from towpath.catalog.complaints.service import LONGEST
from towpath.catalog.complaints.store import OPEN, ComplaintState, NewComplaint
from towpath.catalog.data_sets.directory import SCHEME, Listing, list_files, open_file
from towpath.catalog.data_sets.store import DataSet, DataSetState
from towpath.errors import BadValue, FieldsMasked
from towpath.operations.model import cut
from towpath.web.api.complaints import admitted, may_complain
from towpath.web.auth import DataKeeper, Reader, form_of, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import before_of, chosen, events_of, events_seen, one_of
from towpath.web.console.layout.page import page

if TYPE_CHECKING:
    from towpath.access.roles import Principal
    from towpath.runtime import Runtime
    from towpath.web.visitors import VisitorLimits


router = APIRouter(prefix="/data-sets", include_in_schema=False)
complaint_router = APIRouter(include_in_schema=False)

ROWS = 50
MOST_EVENTS = 20
PIECE_BYTES = 256 << 10

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INSTANCE = re.compile(r"([a-z0-9][a-z0-9_.-]*):(\S+)")
_MASKED = "some fields are masked for you: the files of a data set may hold them"


@router.get("")
def data_sets(request: Request, principal: Reader) -> Response:
    """The newest first."""
    runtime = runtime_of(request)
    given = chosen(request, "kind", "subject", "state")
    state = _state(given["state"]) if "state" in given else None
    found = runtime.data_sets.list(
        kind=given.get("kind"), subject=given.get("subject"), state=state, before=before_of(request), limit=ROWS + 1
    )
    shown, after = cut(found, ROWS)
    return page(request, "data_sets.html", data_sets=shown, next=after, states=list(DataSetState))


@router.get("/{data_set}")
def data_set(request: Request, data_set: str, principal: Reader) -> Response:
    """One data set with its family and its files."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    lineage = runtime.data_sets.show(data_set)
    listing, no_files = _files(lineage.data_set, bool(masks))
    return page(
        request,
        "data_set.html",
        it=lineage.data_set,
        parents=lineage.parents,
        children=lineage.children,
        in_use=[each for each in lineage.children if each.state is DataSetState.MAKING],
        origin=_linked(lineage.data_set.origin),
        listing=listing,
        no_files=no_files,
        events=events_seen(events_of(runtime, lineage.data_set.id, MOST_EVENTS), masks),
    )


@router.get("/{data_set}/files/{path:path}")
async def download(request: Request, data_set: str, path: str, principal: Reader) -> Response:
    """One of its files, piece by piece."""
    limits: VisitorLimits = request.app.state.visitor_limits
    limits.streams.check(principal.by)
    file, size = await anyio.to_thread.run_sync(_opened, runtime_of(request), principal, data_set, path)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}",
        "Content-Length": str(size),
    }
    pieces = _pieces(limits, principal.by, file, size)
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


@router.post("/{data_set}/delete")
def delete(data_set: str, act: Act, principal: DataKeeper) -> Response:
    """Remove all that it is; its row stays for a while, as deleted. Refused while something is made from it."""
    return act.do(
        "delete data set",
        data_set,
        lambda: act.runtime.data_sets.delete(data_set, **act.by),
        lambda found: f"it is {found.state}",
        f"/data-sets/{quote(data_set, safe='')}",
    )


@complaint_router.get("/complain")
def complain_page(request: Request, allowed: Annotated[None, Depends(may_complain)]) -> Response:
    """Where a reader says what is wrong with a document; open to all where `complaints.public` is set."""
    asked = {name: request.query_params.get(name, "")[:most] for name, most in LONGEST.items()}
    return page(request, "complain.html", given=asked, wrong="", number=None, longest=LONGEST)


@complaint_router.post("/complain")
def complain(request: Request, admitted: Annotated[None, Depends(admitted)]) -> Response:
    """Write down what a reader says."""
    form = form_of(request)
    given = {name: form.lines(name) for name in LONGEST}
    try:
        made = runtime_of(request).complaints.make(_about(given))
    except BadValue as error:
        return page(request, "complain.html", status=422, given=given, wrong=str(error), number=None, longest=LONGEST)
    return page(request, "complain.html", status=202, given=given, wrong="", number=made.number, longest=LONGEST)


@complaint_router.get("/complaints")
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


@complaint_router.post("/complaints/add")
def make(act: Act, principal: DataKeeper) -> Response:
    """Write down what a reader has said by other ways."""
    about = _about({name: act.form.lines(name) for name in LONGEST})
    return act.do(
        "make complaint",
        f"{about.target} {about.document}",
        lambda: act.runtime.complaints.make(about, who=principal.name),
        "written down",
        lambda made: f"/complaints/{made.number}",
    )


@complaint_router.get("/complaints/{number}")
def complaint(request: Request, number: int, principal: Reader) -> Response:
    """One complaint, the record behind its document, and what can be done."""
    runtime = runtime_of(request)
    found = runtime.complaints.show(number)
    return page(
        request,
        "complaint.html",
        complaint=found,
        others=runtime.complaints.others(found),
        is_open=found.state in OPEN,
        shows_contact=Scope.DATA_WRITE in principal.scopes,
        events=events_of(runtime, str(number), MOST_EVENTS, "complaint_changed_by_hand"),
    )


@complaint_router.post("/complaints/{number}/take")
def take(number: int, act: Act, principal: DataKeeper) -> Response:
    """Say that you are at it."""
    take = act.runtime.complaints.take
    return act.do("take complaint", number, lambda: take(number, **act.by), "it is yours")


@complaint_router.post("/complaints/{number}/dismiss")
def dismiss(number: int, act: Act, principal: DataKeeper) -> Response:
    """Settle it: nothing is to be done."""
    dismiss, reply = act.runtime.complaints.dismiss, act.form.lines("reply")
    return act.do("dismiss complaint", number, lambda: dismiss(number, reply=reply, **act.by), "dismissed")


@complaint_router.post("/complaints/{number}/block")
def block(number: int, act: Act, principal: DataKeeper) -> Response:
    """Settle it by a block rule for the key of its record."""
    principal.check(Scope.POLICY_WRITE)
    form, block = act.form, act.runtime.complaints.block
    return act.do(
        "block after complaint",
        number,
        lambda: block(number, until=form.text("until"), **act.by, reply=form.maybe("reply")),
        lambda made: f"settled by block rule {made.rule}",
    )


@complaint_router.post("/complaints/{number}/rerun")
def rerun(number: int, act: Act, principal: DataKeeper) -> Response:
    """Settle it by sending its record to its topic again."""
    form, rerun = act.form, act.runtime.complaints.rerun
    return act.do(
        "re-run after complaint",
        number,
        lambda: rerun(number, **act.by, reply=form.maybe("reply")),
        "its record was sent again",
    )


def _opened(runtime: Runtime, principal: Principal, data_set: str, path: str) -> tuple[BinaryIO, int]:
    if runtime.desk.masks_for(principal.role):
        raise FieldsMasked(_MASKED)
    return open_file(runtime.data_sets.show(data_set).data_set, path)


async def _pieces(limits: VisitorLimits, key: str, file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """As many bytes as were promised, however long the file has become."""
    with limits.streams.held(key), file:
        while size > 0 and (piece := await anyio.to_thread.run_sync(file.read, min(size, PIECE_BYTES))):
            size -= len(piece)
            yield piece


def _files(found: DataSet, is_masked: bool) -> tuple[Listing | None, str]:
    """Its files; or none, and why not."""
    if not found.place.startswith(f"{SCHEME}:"):
        return None, ""
    if is_masked:
        return None, _MASKED
    try:
        return list_files(found), ""
    except BadValue as error:
        return None, str(error)


def _linked(origin: str) -> list[tuple[str, str | None]]:
    """The words of an origin, each with where it leads: runs and messages are named in them."""
    return [(word, _page_of(word)) for word in origin.split()]


def _page_of(word: str) -> str | None:
    if _ID.fullmatch(word):
        return f"/queue/messages/{word}"
    instance = _INSTANCE.fullmatch(word)
    return None if instance is None else f"/actors/{instance[1]}/{quote(instance[2], safe='')}"


def _state(text: str) -> DataSetState:
    try:
        return DataSetState(text)
    except ValueError:
        raise BadValue(f"{text!r} is not a state; there are: {', '.join(DataSetState)}") from None


def _about(given: dict[str, str]) -> NewComplaint:
    said = {name: given[name] for name in ("target", "document", "said")}
    return NewComplaint(**said, contact=given["contact"] or None, flow=given["flow"] or None)
