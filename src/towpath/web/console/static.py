"""Style, script and pictures of the pages: read once, and named by what is in them, so that browsers keep them."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

PREFIX = "/static"
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


@cache
def _content(name: str) -> bytes | None:
    known = {file.name for file in (resources.files(__package__) / "static").iterdir()}
    if name not in known or name.rpartition(".")[2] not in _KINDS:
        return None
    return (resources.files(__package__) / "static" / name).read_bytes()


@cache
def url_of(name: str) -> str:
    """Where a file is found; another text is found elsewhere."""
    content = _content(name)
    if content is None:
        raise KeyError(name)
    return f"{PREFIX}/{name}?{hashlib.sha256(content).hexdigest()[:12]}"


@router.get(PREFIX + "/{name}")
def static(name: str) -> Response:
    """Style, script and pictures."""
    content = _content(name)
    if content is None:
        raise HTTPException(404)
    return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers={"Cache-Control": _FOR_EVER})
