"""What a person sees when something goes wrong: a page with the sentence, the status and the way back."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from towpath.errors import BadValue
from towpath.web.asking import SAFE
from towpath.web.console.acting import BACK
from towpath.web.console.pages import page
from towpath.web.form import TOKEN_FIELD, form_of

_TITLES = {401: "Log in first", 403: "Not allowed", 404: "Not found", 409: "Somebody was faster", 410: "Gone"}
_NOT_SHOWN = (TOKEN_FIELD, BACK)


def failed(request: Request, status: int, message: str) -> Response:
    """The page of an error. Who is not logged in is sent to the log-in, and then back here."""
    if status == 401 and request.method in SAFE:
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(address, safe='')}", 303)
    title = _TITLES.get(status, "That did not work" if status < 500 else "Something is broken")
    sent = [] if status in (401, 403) else _sent(request)  # what a page of somebody else has sent is not repeated
    return page(request, "failed.html", status=status, title=title, status_code=status, message=message, sent=sent)


def _sent(request: Request) -> list[tuple[str, str]]:
    """What a person has written, so that it is not lost with the form that was refused. No secrets."""
    with suppress(BadValue):
        written = form_of(request).written()
        return [(name, text) for name, text in written if name not in _NOT_SHOWN and "password" not in name]
    return []
