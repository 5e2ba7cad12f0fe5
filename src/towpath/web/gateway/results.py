"""The outlet: results of an upload, read with a cursor and acknowledged. The protocol is docs/reference/gateway.md.

Rows of a result come as a page, or as a stream until the result is complete: lines, or server-sent events. A stream is
a coroutine, which looks for more now and then in a thread: fifty waiting clients need no fifty threads. It ends when
the result is complete, when something goes wrong (which it says), when the client is gone or the process is told to
stop. Whoever was cut off asks again from the last cursor that came.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from towpath.errors import BadValue, TowpathError
from towpath.gateway.outlet.page import Cursor, csv_header, csv_lines
from towpath.gateway.outlet.service import Outlet, OutletPage
from towpath.web.failures import GATEWAY, code_of, failures, message_of
from towpath.web.gateway.models import LONGEST_CURSOR, Acknowledge, ResultOut, Results
from towpath.web.gateway.uploads import FAILURES, UploadId
from towpath.web.visitors import AReceiver, AViewer, Visitor, seen_of

router = APIRouter(
    prefix=f"{GATEWAY}/uploads/{{upload}}/results",
    tags=["outlet"],
    responses={**FAILURES, **failures(410)},
)

CURSOR, END, COUNT = "Towpath-Cursor", "Towpath-End", "Towpath-Rows"
JSON_LINES, CSV, EVENTS = "application/x-ndjson", "text/csv; charset=utf-8", "text/event-stream"
MOST_ROWS, LARGEST_PAGE = 100_000, 64 << 20
STREAMED_ROWS = 1_000  # at once: what was sent and not acknowledged is sent again after a cut
UNBUFFERED = {"X-Accel-Buffering": "no"}
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 1.0
HEARTBEAT_S = 10.0

QueryName = Annotated[str, Path(min_length=1, max_length=100, description="The name of the result.")]
After = Annotated[
    str | None, Query(max_length=LONGEST_CURSOR, description="Go on after this; not given: from the beginning.")
]
Rows = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Most rows of the answer.")]
Bytes = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Most bytes of the answer; one row always comes.")]
Format = Annotated[Literal["jsonl", "csv"], Query(description="JSON lines, or CSV.")]
Follow = Annotated[bool, Query(description="Stay and send rows as they come, until the result is complete.")]

ROWS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Rows.",
        "content": {kind: {"schema": {"type": "string"}} for kind in (JSON_LINES, "text/csv")},
        "headers": {
            CURSOR: {"description": "Go on after this, and acknowledge this.", "schema": {"type": "string"}},
            END: {
                "description": "`true`: the result is complete, and nothing comes after this.",
                "schema": {"type": "string", "enum": ["true", "false"]},
            },
            COUNT: {"description": "How many rows these are.", "schema": {"type": "integer"}},
        },
    }
}
EVENT_ROWS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events.", "content": {EVENTS: {"schema": {"type": "string"}}}}
}


@router.get("")
def results(upload: UploadId, visitor: AViewer) -> Results:
    """The results of an upload, and how far each is acknowledged."""
    id = visitor.runtime.gateway.status(upload, owner=seen_of(visitor.principal)).upload.id
    return Results(items=[ResultOut.of(each) for each in visitor.runtime.outlet.queries(id)])


@router.get("/{query}", response_class=Response, responses=ROWS)
async def rows(
    upload: UploadId,
    query: QueryName,
    visitor: AReceiver,
    cursor: After = None,
    limit: Rows = 10_000,
    bytes: Bytes = 8 << 20,
    format: Format = "jsonl",
    follow: Follow = False,
) -> Response:
    """Rows after a cursor, in an order that never changes."""
    if follow and format == "csv":
        raise BadValue("a result is followed as JSON lines: leave format=csv or follow=true away")
    wanted = _RowQuery(await run_in_threadpool(visitor.own, upload), query, cursor or None, limit, bytes)
    if follow:
        found = await _followed(visitor, wanted)
        return StreamingResponse(as_lines(found), headers=UNBUFFERED, media_type=JSON_LINES)
    return await run_in_threadpool(_page, visitor.runtime.outlet, wanted, format)


@router.get("/{query}/events", response_class=Response, responses=EVENT_ROWS)
async def events(
    upload: UploadId,
    query: QueryName,
    visitor: AReceiver,
    cursor: After = None,
    last_event_id: Annotated[str | None, Header(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Rows as server-sent events. Whoever comes back with `Last-Event-ID` goes on where they were cut off."""
    after = last_event_id or cursor or None
    wanted = _RowQuery(await run_in_threadpool(visitor.own, upload), query, after, STREAMED_ROWS, LARGEST_PAGE)
    found = await _followed(visitor, wanted)
    return StreamingResponse(as_events(found), headers=UNBUFFERED, media_type=EVENTS)


@router.post("/{query}/acknowledge")
def acknowledge(upload: UploadId, query: QueryName, sent: Acknowledge, visitor: AReceiver) -> ResultOut:
    """Say that all before a cursor is safe with you. After the end of the last result the upload is finished."""
    return ResultOut.of(visitor.runtime.outlet.acknowledge(visitor.own(upload), query, sent.cursor))


@dataclass(frozen=True, slots=True)
class _RowQuery:
    """Which rows are asked for."""

    upload: str
    query: str
    cursor: str | None
    most_rows: int
    most_bytes: int

    @property
    def is_first(self) -> bool:
        return self.cursor is None or Cursor.from_text(self.cursor, self.upload, self.query).is_start

    def read(self, outlet: Outlet) -> OutletPage:
        limits = {"most_rows": self.most_rows, "most_bytes": self.most_bytes}
        return outlet.page(self.upload, self.query, self.cursor, **limits)


def _page(outlet: Outlet, wanted: _RowQuery, format: str) -> Response:
    page = wanted.read(outlet)
    headers = {CURSOR: page.cursor, END: "true" if page.is_end else "false", COUNT: str(page.rows)}
    if format == "csv":
        return Response(_as_csv(outlet, wanted, page), headers=headers, media_type=CSV)
    return Response(page.lines, headers=headers, media_type=JSON_LINES)


def _as_csv(outlet: Outlet, wanted: _RowQuery, page: OutletPage) -> bytes:
    """The header line comes with the first row; of a result without rows, with its end."""
    columns = outlet.columns(wanted.upload, wanted.query) if page.rows or page.is_end else None
    if columns is None:
        return b""
    header = csv_header(columns) if wanted.is_first else b""
    return header + csv_lines(page.lines, columns)


async def _followed(visitor: Visitor, wanted: _RowQuery) -> AsyncIterator[Portion]:
    """The stream, if there is such a result and room for one more."""
    outlet, limits = visitor.runtime.outlet, visitor.limits
    limits.streams.check(visitor.key)
    first = await run_in_threadpool(wanted.read, outlet)  # what is wrong has its status, while it can have one

    def read(after: str) -> OutletPage:
        return replace(wanted, cursor=after).read(outlet)

    async def held() -> AsyncIterator[Portion]:
        with limits.streams.held(visitor.key):
            async for each in portions(read, first, limits.ending.is_set):
                yield each

    return held()


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """Why a stream cannot go on."""

    code: str
    message: str


Read = Callable[[str], OutletPage]
Portion = OutletPage | StreamFailure | None  # none: nothing is new


async def portions(read: Read, first: OutletPage, is_ending: Callable[[], bool]) -> AsyncIterator[Portion]:
    """A page, and what comes after it, until it is complete."""
    page, wait_s, silent_s = first, FIRST_WAIT_S, 0.0
    while True:
        if page.lines or page.is_end:
            yield page
            wait_s, silent_s = FIRST_WAIT_S, 0.0
        else:
            await asyncio.sleep(wait_s)
            wait_s, silent_s = min(2 * wait_s, LONGEST_WAIT_S), silent_s + wait_s
        if page.is_end or is_ending():
            return
        if silent_s >= HEARTBEAT_S:
            yield None
            silent_s = 0.0
        try:
            page = await run_in_threadpool(read, page.cursor)
        except TowpathError as error:
            yield StreamFailure(code_of(type(error)), message_of(error))
            return


async def as_lines(found: AsyncIterator[Portion]) -> AsyncIterator[bytes]:
    """Rows as they are, and after each portion what no row can be: an array that says how far they go."""
    async for each in found:
        match each:
            case None:
                yield b"\n"
            case StreamFailure(code, message):
                yield _line("error", code, message)
            case page:
                yield page.lines + _line("end" if page.is_end else "cursor", page.cursor)


async def as_events(found: AsyncIterator[Portion]) -> AsyncIterator[bytes]:
    """Server-sent events: `rows` with the rows as lines, `end`, `error`; the id is the cursor."""
    async for each in found:
        match each:
            case None:
                yield b":\n\n"
            case StreamFailure(code, message):
                yield _event("error", None, json.dumps({"code": code, "message": message}).encode())
            case page:
                if page.lines:
                    yield _event("rows", page.cursor, page.lines)
                if page.is_end:
                    yield _event("end", page.cursor, b"{}")


def _line(*values: str | None) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _event(kind: str, cursor: str | None, data: bytes) -> bytes:
    head = f"event: {kind}\n" if cursor is None else f"id: {cursor}\nevent: {kind}\n"
    return head.encode() + b"".join(b"data: " + line + b"\n" for line in data.splitlines()) + b"\n"
