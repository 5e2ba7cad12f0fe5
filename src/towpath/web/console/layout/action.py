"""What a person does from a page: made in their name, with its row in the audit trail, and then back to a page.

And what they see when something goes wrong: a page with the sentence, the status and the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, TypeVar
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

from towpath.access.changes import AuditRequest
from towpath.access.roles import Principal
from towpath.errors import BadValue
from towpath.web.auth import SAFE, TOKEN_FIELD, FormData, form_of, runtime_of
from towpath.web.changes import ByHand
from towpath.web.console.layout.page import page, went

T = TypeVar("T")

BACK = "back"
_TITLES = {401: "Log in first", 403: "Not allowed", 404: "Not found", 409: "Somebody was faster", 410: "Gone"}
_NOT_SHOWN = (TOKEN_FIELD, BACK)


class PageAction:
    """What a handler of a form is given."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.runtime = runtime_of(request)
        self.form: FormData = form_of(request)

    @property
    def principal(self) -> Principal:
        """Who does it, as the dependency of the route has let them in."""
        principal: Principal = self.request.state.principal
        return principal

    @property
    def why(self) -> str:
        return self.form.text("why")

    @property
    def by(self) -> ByHand:
        """In whose name, and why."""
        return {"who": self.principal.name, "why": self.why}

    def do(
        self,
        what: str,
        subject: object,
        act: Callable[[], T],
        said: str | Callable[[T], str],
        to: str | Callable[[T], str] = "",
    ) -> Response:
        """Make the change, then show the page `to`, or the one that the form names, and say there what was done."""
        made = self.make(what, subject, act)
        where = to(made) if callable(to) else to
        return went(where or self.form.one(BACK) or "/", said(made) if callable(said) else said)

    def make(self, what: str, subject: object, act: Callable[[], T]) -> T:
        """The change alone."""
        self.request.state.is_recorded = True
        principal = self.principal
        asked = AuditRequest(principal.name, principal.by, what, str(subject), self.request.state.request_id)
        with self.runtime.access.changes.recorded(asked):
            return act()


Act = Annotated[PageAction, Depends(PageAction)]


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
