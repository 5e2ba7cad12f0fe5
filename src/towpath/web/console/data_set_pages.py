"""Data sets: what runs have made, where it comes from, what was made from it, and its files."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from towpath.catalog.data_set import DataSet
from towpath.catalog.directory import SCHEME
from towpath.catalog.files import Listing, list_files, open_file
from towpath.catalog.state import DataSetState
from towpath.errors import BadValue, FieldsMasked
from towpath.web.asking import DataKeeper, Reader, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, chosen, cut
from towpath.web.console.pages import page
from towpath.web.console.seen import events_seen

if TYPE_CHECKING:
    from towpath.access.principal import Principal
    from towpath.runtime import Runtime
    from towpath.web.visiting import Hall

router = APIRouter(prefix="/data-sets", include_in_schema=False)

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
    with runtime.database.read() as tx:
        events = runtime.event_log.page(tx, limit=MOST_EVENTS, subject=lineage.data_set.id)
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
        events=events_seen(events, masks),
    )


@router.get("/{data_set}/files/{path:path}")
async def download(request: Request, data_set: str, path: str, principal: Reader) -> Response:
    """One of its files, piece by piece."""
    hall: Hall = request.app.state.hall
    hall.streams.check(principal.by)
    file, size = await anyio.to_thread.run_sync(_opened, runtime_of(request), principal, data_set, path)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}",
        "Content-Length": str(size),
    }
    pieces = _pieces(hall, principal.by, file, size)
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


@router.post("/{data_set}/delete")
def delete(data_set: str, act: Act, principal: DataKeeper) -> Response:
    """Remove all that it is; its row stays for a while, as deleted. Refused while something is made from it."""
    return act.do(
        principal,
        "delete data set",
        data_set,
        lambda: act.runtime.data_sets.delete(data_set, who=principal.name, why=act.why),
        lambda found: f"it is {found.state}",
        f"/data-sets/{quote(data_set, safe='')}",
    )


def _opened(runtime: Runtime, principal: Principal, data_set: str, path: str) -> tuple[BinaryIO, int]:
    if runtime.desk.masks_for(principal.role):
        raise FieldsMasked(_MASKED)
    return open_file(runtime.data_sets.show(data_set).data_set, path)


async def _pieces(hall: Hall, key: str, file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """As many bytes as were promised, however long the file has become."""
    with hall.streams.held(key), file:
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
