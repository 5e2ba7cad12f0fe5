"""What a person does from a page: made in their name, with its row in the trail, and then back to a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.responses import Response

from towpath.access.audit_store import Asked
from towpath.access.principal import Principal
from towpath.web.asking import runtime_of
from towpath.web.console.flash import went
from towpath.web.form import Form, form_of

T = TypeVar("T")

ONCE = "once"  # the field by which a form that is sent twice is known again
BACK = "back"


class Acting:
    """What a handler of a form is given."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.runtime = runtime_of(request)
        self.form: Form = form_of(request)

    @property
    def why(self) -> str:
        return self.form.text("why")

    def do(
        self,
        principal: Principal,
        what: str,
        subject: object,
        act: Callable[[], T],
        said: str | Callable[[T], str],
        to: str | Callable[[T], str] = "",
    ) -> Response:
        """Make the change, then show the page `to`, or the one that the form names, and say there what was done."""
        made = self.make(principal, what, subject, act)
        where = to(made) if callable(to) else to
        return went(where or self.form.one(BACK) or "/", said(made) if callable(said) else said)

    def make(self, principal: Principal, what: str, subject: object, act: Callable[[], T]) -> T:
        """The change alone."""
        self.request.state.is_recorded = True
        asked = Asked(principal.name, principal.by, what, str(subject), self.request.state.request_id)
        with self.runtime.access.changes.recorded(asked):
            return act()


Act = Annotated[Acting, Depends(Acting)]
