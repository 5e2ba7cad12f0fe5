"""The gateway: open an upload, send its data in numbered chunks, finish. The protocol is docs/reference/gateway.md."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from towpath.gateway.lines.lines import LARGEST, unzipped
from towpath.gateway.uploads.model import UploadState, UploadStatus
from towpath.operations.model import Page, Reason, page
from towpath.web.auth import Worker, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import GATEWAY, Before, Limit, failures
from towpath.web.gateway.models import (
    Abort,
    ChunkOut,
    Finish,
    NewSession,
    NewUpload,
    SenderOut,
    SessionOut,
    Skip,
    StreamList,
    StreamOut,
    TakenOut,
    UploadOut,
    UploadRow,
)
from towpath.web.visitors import AnEnder, ASender, AViewer, ended_by, seen_of

FAILURES = failures(400, 401, 403, 404, 408, 409, 413, 422, 429, 503)
router = APIRouter(prefix=GATEWAY, tags=["gateway"], responses=FAILURES)

UploadId = Annotated[str, Path(min_length=1, max_length=100, description="The id of the upload.")]
SenderName = Annotated[str, Path(min_length=1, max_length=100, description="The name of the sender.")]
Session = Annotated[int, Query(ge=0, le=LARGEST, description="The number that opening the session gave.")]
Offset = Annotated[int, Query(ge=0, le=LARGEST, description="Where in the sender's data the chunk begins.")]
Sequence = Annotated[int, Query(ge=0, le=LARGEST, description="The number of the chunk: above that of the last one.")]
Last = Annotated[bool, Query(description="What follows the last end of line is a line, too.")]
Encoding = Annotated[str | None, Header(description="`gzip`, or not given.", max_length=100)]

NO_COLUMNS = NewSession(columns=None)
PLAIN = ("", "identity")
GZIP = ("gzip", "x-gzip")
CHUNK_BODY: dict[str, Any] = {
    "requestBody": {
        "description": "Lines, plain or packed with gzip.",
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/streams")
def streams(visitor: AViewer) -> StreamList:
    """What may be sent here."""
    found, settings = visitor.runtime.gateway.streams, visitor.runtime.settings.gateway
    return StreamList(items=[StreamOut.of(found.stream(name), settings) for name in found.names])


@router.post("/uploads", status_code=201, response_model=UploadOut)
def open_upload(sent: NewUpload, visitor: ASender, maker: Maker) -> Response:
    """Open an upload. It belongs to whoever opens it: for others it is as if there was none."""
    id = maker.same_id() if sent.id is None else str(sent.id)

    def act() -> UploadStatus:
        senders = [each.value() for each in sent.senders]
        return visitor.runtime.gateway.open(sent.stream, senders, owner=visitor.name, label=sent.label, id=id)

    def show(made: UploadStatus | None) -> UploadOut:
        return UploadOut.of(made or act())

    return maker.make("open upload", sent.stream, act, show, status=201, is_repeatable=True)


@router.get("/uploads")
def uploads(
    visitor: AViewer,
    stream: Annotated[str | None, Query(max_length=100)] = None,
    state: UploadState | None = None,
    limit: Limit = 100,
    before: Before = None,
) -> Page[UploadRow]:
    """Your uploads, the newest first; an operator's key with the scope `read` sees everybody's."""
    found = visitor.runtime.gateway.list(
        owner=seen_of(visitor.principal), stream=stream, state=state, before=before, limit=limit + 1
    )
    return page(found, limit, UploadRow.of_upload)


@router.get("/uploads/{upload}")
def show_upload(upload: UploadId, visitor: AViewer) -> UploadOut:
    """How far an upload is, and each of its senders."""
    return UploadOut.of(visitor.runtime.gateway.status(upload, owner=seen_of(visitor.principal)))


@router.post("/uploads/{upload}/senders/{sender}/session")
def open_session(upload: UploadId, sender: SenderName, visitor: ASender, sent: NewSession = NO_COLUMNS) -> SessionOut:
    """Begin to send, or go on after a cut: says from where. The newest session counts; older ones are refused."""
    found = visitor.runtime.gateway.session(upload, sender, owner=visitor.name, columns=sent.columns)
    return SessionOut.of_session(found, visitor.runtime.settings.gateway)


@router.post("/uploads/{upload}/senders/{sender}/chunks", openapi_extra=CHUNK_BODY, responses=failures(415))
async def send_chunk(
    request: Request,
    upload: UploadId,
    sender: SenderName,
    visitor: ASender,
    session: Session,
    offset: Offset,
    sequence: Sequence,
    last: Last = False,
    content_encoding: Encoding = None,
) -> ChunkOut:
    """Send bytes. What is answered is durable in the log; the same chunk twice is taken once."""
    request.state.is_recorded = True  # the trail is for what people do; what comes of chunks is in the upload
    gateway, limits = visitor.runtime.gateway, visitor.limits
    is_packed = _is_packed(content_encoding)
    async with limits.room_for_chunk(visitor.key):
        body = await request.body()
        limits.rates.spend_bytes(visitor.key, len(body))

        def take() -> ChunkOut:
            data = unzipped(body, visitor.runtime.settings.gateway.chunk_bytes) if is_packed else body
            numbers = {"session": session, "offset": offset, "sequence": sequence}
            taken = gateway.take(upload, sender, owner=visitor.name, data=data, last=last, **numbers)
            return ChunkOut.of_chunk(taken, gateway.next_bytes())

        async with limits.turn_of(upload, sender):
            return await run_in_threadpool(take)


@router.post("/uploads/{upload}/senders/{sender}/skip")
def skip_line(upload: UploadId, sender: SenderName, sent: Skip, visitor: ASender) -> TakenOut:
    """Leave out a line that is too long. It becomes a case with its beginning, so that nothing is lost unseen."""
    return TakenOut.of(
        visitor.runtime.gateway.skip(
            upload,
            sender,
            owner=visitor.name,
            session=sent.session,
            offset=sent.offset,
            sequence=sent.sequence,
            bytes=sent.bytes,
            crc32=sent.crc32,
            beginning=sent.beginning.encode(),
            why=sent.why,
        )
    )


@router.post("/uploads/{upload}/senders/{sender}/finish")
def finish(upload: UploadId, sender: SenderName, sent: Finish, visitor: ASender) -> SenderOut:
    """Say that this sender has sent all. Refused when the server has other bytes; asked again it does no harm."""
    status = visitor.runtime.gateway.finish(
        upload, sender, owner=visitor.name, session=sent.session, bytes=sent.bytes, crc32=sent.crc32
    )
    return SenderOut.of_sender(status.sender(sender))


@router.post("/uploads/{upload}/abort", response_model=UploadOut)
def abort(upload: UploadId, sent: Abort, visitor: AnEnder, maker: Maker) -> Response:
    """Give an upload up. An operator's key with the scope `desk:write` may do so with everybody's."""
    gateway = visitor.runtime.gateway

    def act() -> UploadStatus:
        return gateway.abort(upload, owner=ended_by(visitor.principal), who=visitor.name, why=sent.why)

    def show(made: UploadStatus | None) -> UploadOut:
        return UploadOut.of(made or gateway.status(upload, owner=ended_by(visitor.principal)))

    return maker.make("abort upload", upload, act, show)


@router.post("/uploads/{upload}/retry", response_model=UploadOut)
def retry(request: Request, upload: UploadId, sent: Reason, principal: Worker, maker: Maker) -> Response:
    """Let closing steps that have failed be tried again, after what made them fail is mended."""
    runtime = runtime_of(request)

    def act() -> None:
        runtime.outlet.retry(upload, **maker.by(sent.why))

    def show(_: None) -> UploadOut:
        return UploadOut.of(runtime.gateway.status(upload, owner=None))

    return maker.make("retry upload", upload, act, show)


def _is_packed(encoding: str | None) -> bool:
    name = (encoding or "").strip().lower()
    if name not in (*PLAIN, *GZIP):
        raise HTTPException(415, "a chunk is plain or packed with gzip: Content-Encoding: gzip")
    return name in GZIP
