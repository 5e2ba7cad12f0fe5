"""A sentence that a change leaves for the page that is shown after it, in a cookie that is read once."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

SAID = "towpath_said"
KEPT_S = 60
LONGEST = 600
_WRONG = "!"


@dataclass(frozen=True, slots=True)
class Said:
    """What was done, or why it was not."""

    text: str
    is_wrong: bool = False


def went(address: str, text: str = "", *, is_wrong: bool = False) -> Response:
    """Go to a page of this console after a form, and say something there."""
    answer = RedirectResponse(_local(address), 303)
    if text:
        kept = quote((_WRONG if is_wrong else "") + text[:LONGEST], safe="")
        answer.set_cookie(SAID, kept, max_age=KEPT_S, httponly=True, samesite="lax", path="/")
    return answer


def said(request: Request) -> Said | None:
    kept = unquote(request.cookies.get(SAID, ""))
    if not kept:
        return None
    return Said(kept.removeprefix(_WRONG)[:LONGEST], kept.startswith(_WRONG))


def _local(address: str) -> str:
    """Never to another server, whatever a form says."""
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_ours and address.isprintable() else "/"
