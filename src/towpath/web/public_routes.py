"""What anybody may ask for without a key: to complain about a document, where the settings say so."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from towpath.errors import TooFast
from towpath.web.asking import runtime_of
from towpath.web.complaint_models import Complained
from towpath.web.model import COMPLAINTS
from towpath.web.rate import Rate

router = APIRouter(tags=["public"])


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


@router.post(COMPLAINTS, status_code=202)
def complain(request: Request, sent: Complained, admitted: Annotated[None, Depends(admitted)]) -> Heard:
    """Say what is wrong with a document. Off unless `complaints.public` is set."""
    return Heard(complaint=runtime_of(request).complaints.make(sent.value()).number)
