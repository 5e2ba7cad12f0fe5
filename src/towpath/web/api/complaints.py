"""Complaints of readers about documents, for those who act on them.

Where the settings say so, anybody may complain about a document without a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from towpath.access.roles import Principal, Scope
from towpath.catalog.complaints.store import Complaint, ComplaintState
from towpath.errors import TooFast
from towpath.operations.catalog import Blocked, Complained, Dismissed, Linked, Rerun, complaint_item
from towpath.operations.model import Item, Page, Reason, page
from towpath.web.auth import DataKeeper, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import COMPLAINTS, PREFIX, Before, Limit, Number
from towpath.web.visitors import Rate

router = APIRouter(prefix=f"{PREFIX}/complaints", tags=["complaints"])
public_router = APIRouter(tags=["public"])


@router.get("")
def complaints(
    request: Request, principal: Reader, state: ComplaintState | None = None, limit: Limit = 100, before: Before = None
) -> Page[Item]:
    """Complaints, the newest first. Contacts are shown to those who may act on them."""
    found = runtime_of(request).complaints.list(state=state, limit=limit + 1, before=before)
    return page(found, limit, lambda each: _shown(each, principal))


@router.get("/{number}")
def show(request: Request, number: Number, principal: Reader) -> Item:
    """One complaint, and the numbers of others about the same document."""
    complaints = runtime_of(request).complaints
    found = complaints.show(number)
    return {**_shown(found, principal), "others": [each.number for each in complaints.others(found)]}


@router.post("", status_code=201, response_model=Item)
def make(request: Request, sent: Complained, principal: DataKeeper, maker: Maker) -> Response:
    """Write down what a reader has said by other ways."""
    complaints, about = runtime_of(request).complaints, sent.value()

    def show(made: Complaint | None) -> Item:  # None: the answer was lost, and nobody else has said the same since
        mine = (each for each in complaints.list() if each.made_by == principal.name and each.about == about)
        return _shown(made or next(mine), principal)

    def act() -> Complaint:
        return complaints.make(about, who=principal.name)

    return maker.make("make complaint", f"{about.target} {about.document}", act, show, status=201)


@router.post("/{number}/take", response_model=Item)
def take(request: Request, number: Number, sent: Reason, principal: DataKeeper, maker: Maker) -> Response:
    """Say that you are at it."""
    act = runtime_of(request).complaints.take
    by = maker.by(sent.why)
    return _act(request, maker, "take complaint", number, lambda: act(number, **by))


@router.post("/{number}/link", response_model=Item)
def link(request: Request, number: Number, sent: Linked, principal: DataKeeper, maker: Maker) -> Response:
    """Say which record its document was made from."""
    complaints = runtime_of(request).complaints

    def act() -> Complaint:
        return complaints.link(number, sent.topic, sent.partition, sent.offset, **maker.by(sent.why))

    return _act(request, maker, "link complaint", number, act)


@router.post("/{number}/dismiss", response_model=Item)
def dismiss(request: Request, number: Number, sent: Dismissed, principal: DataKeeper, maker: Maker) -> Response:
    """Settle it: nothing is to be done."""
    act = runtime_of(request).complaints.dismiss
    by = maker.by(sent.why)
    return _act(request, maker, "dismiss complaint", number, lambda: act(number, **by, reply=sent.reply))


@router.post("/{number}/block", response_model=Item)
def block(request: Request, number: Number, sent: Blocked, principal: DataKeeper, maker: Maker) -> Response:
    """Settle it by a block rule for the key of its record. Needs the scope `policy:write` as well."""
    principal.check(Scope.POLICY_WRITE)
    complaints = runtime_of(request).complaints

    def act() -> Complaint:
        return complaints.block(
            number,
            until=sent.until,
            **maker.by(sent.why),
            action=sent.action,
            approved_by=sent.approved_by,
            reply=sent.reply,
        )

    return _act(request, maker, "block after complaint", number, act)


@router.post("/{number}/rerun", response_model=Item)
def rerun(request: Request, number: Number, sent: Rerun, principal: DataKeeper, maker: Maker) -> Response:
    """Settle it by sending its record to its topic again, where it counts as a new one."""
    complaints = runtime_of(request).complaints

    def act() -> Complaint:
        return complaints.rerun(number, **maker.by(sent.why), reply=sent.reply)

    return _act(request, maker, "re-run after complaint", number, act, is_repeatable=True)


class Heard(BaseModel):
    """A complaint was written down."""

    complaint: int = Field(description="Its number: name it when you ask what became of it.")


def may_complain(request: Request) -> None:
    """Where nobody may complain there is no such route."""
    if not runtime_of(request).settings.complaints.public:
        raise HTTPException(404)


def admitted(request: Request) -> None:
    """The same, and nobody may do it too often."""
    may_complain(request)
    rate: Rate = request.app.state.complaint_rate
    address = request.client.host if request.client else ""
    if (wait_s := rate.wait_s(address)) > 0:
        raise TooFast("there are too many complaints from your address; wait a little", wait_s)
    rate.spend(address, 1)


@public_router.post(COMPLAINTS, status_code=202)
def complain(request: Request, sent: Complained, admitted: Annotated[None, Depends(admitted)]) -> Heard:
    """Say what is wrong with a document. Off unless `complaints.public` is set."""
    return Heard(complaint=runtime_of(request).complaints.make(sent.value()).number)


def _shown(complaint: Complaint, principal: Principal) -> Item:
    """As this person may see it."""
    return complaint_item(complaint, shows_contact=Scope.DATA_WRITE in principal.scopes)


def _act(
    request: Request, maker: Maker, what: str, number: int, act: Callable[[], Complaint], *, is_repeatable: bool = False
) -> Response:
    """One complaint, which is shown then."""
    complaints = runtime_of(request).complaints

    def show(made: Complaint | None) -> Item:
        return _shown(made or complaints.show(number), maker.principal)

    return maker.make(what, number, act, show, is_repeatable=is_repeatable)
