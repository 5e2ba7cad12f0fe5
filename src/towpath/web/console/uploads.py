"""Uploads: what clients have sent, how far each sender is, and how far its results have been taken."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.errors import BadValue, UnknownStream
from towpath.gateway.uploads.model import ENDED, UploadState
from towpath.gateway.uploads.streams import Stream, Streams
from towpath.operations.model import cut
from towpath.web.auth import Reader, Worker, runtime_of
from towpath.web.console.layout.action import Act
from towpath.web.console.layout.lists import before_of, chosen, events_of
from towpath.web.console.layout.page import page
from towpath.web.visitors import MayAbort, ended_by, seen_of

router = APIRouter(prefix="/uploads", include_in_schema=False)

ROWS = 50
MOST_EVENTS = 20

MEANINGS = {
    UploadState.RECEIVING: "Its client may send. After a cut it goes on where it was.",
    UploadState.CLOSING: "All has been sent. The flow passes it, then its closing steps run.",
    UploadState.SENDING: "Its results are there; its client has not taken all of them yet.",
    UploadState.FINISHED: "Its client has all results. What was kept for it is removed.",
    UploadState.ABORTED: "It was given up. Records that were taken stay where they are and stay accounted for.",
    UploadState.EXPIRED: "Nobody went on with it, and a rule has ended it.",
}


@router.get("")
def uploads(request: Request, principal: Reader) -> Response:
    """The newest first. A viewer sees their own."""
    gateway = runtime_of(request).gateway
    given = chosen(request, "stream", "owner", "state")
    owner = seen_of(principal)
    found = gateway.list(
        owner=owner or given.get("owner"),
        stream=given.get("stream"),
        state=_state(given["state"]) if "state" in given else None,
        before=before_of(request),
        limit=ROWS + 1,
    )
    shown, after = cut(found, ROWS)
    return page(
        request,
        "uploads.html",
        uploads=shown,
        next=after,
        streams=gateway.streams.names,
        states=list(UploadState),
        only_own=owner is not None,
    )


@router.get("/{upload_id}")
def upload(request: Request, upload_id: str, principal: Reader) -> Response:
    """One upload: its senders, its results, and what happened to it."""
    runtime = runtime_of(request)
    status = runtime.gateway.status(upload_id, owner=seen_of(principal))
    found = status.upload
    may_end = ended_by(principal) in (None, found.owner) and found.state not in ENDED
    return page(
        request,
        "upload.html",
        upload=found,
        meaning=MEANINGS[found.state],
        senders=status.senders,
        results=runtime.outlet.queries(found.id),
        stream=_stream(runtime.gateway.streams, found.stream),
        events=events_of(runtime, found.id, MOST_EVENTS),
        may_end=may_end,
        has_failed=found.state is UploadState.CLOSING and bool(found.why),
    )


@router.post("/{upload_id}/abort")
def abort(upload_id: str, act: Act, principal: MayAbort) -> Response:
    """Give it up: by its owner, or by who may work at the desk."""
    gateway = act.runtime.gateway
    return act.do(
        "abort upload",
        upload_id,
        lambda: gateway.abort(upload_id, owner=ended_by(principal), **act.by),
        "the upload is aborted; its client is told at its next request",
        f"/uploads/{upload_id}",
    )


@router.post("/{upload_id}/retry")
def retry(upload_id: str, act: Act, principal: Worker) -> Response:
    """Let closing steps that have failed be tried again."""
    outlet = act.runtime.outlet
    return act.do(
        "retry upload",
        upload_id,
        lambda: outlet.retry(upload_id, **act.by),
        "its closing steps will be tried again",
        f"/uploads/{upload_id}",
    )


def _state(text: str) -> UploadState:
    try:
        return UploadState(text)
    except ValueError:
        raise BadValue(f"state: an upload is {', '.join(UploadState)}") from None


def _stream(streams: Streams, name: str) -> Stream | None:
    try:
        return streams.stream(name)
    except UnknownStream:  # taken out of the settings
        return None
