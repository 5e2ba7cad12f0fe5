"""Changes over HTTP: each in the audit trail, and with an idempotency key made once (`access/changes.py`).

Answers are those of the command line with `--json`: payloads stand in them as they are stored, number by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypedDict, TypeVar
from uuid import UUID, uuid5

from fastapi import Depends, Header, Request
from fastapi.responses import Response
from pydantic_core import to_json

from towpath.access.changes import AuditRequest, ChangeAnswer, Idempotency, RequestedChange
from towpath.access.roles import Principal
from towpath.core import exact_json
from towpath.core.exact_json import Exact
from towpath.errors import BadValue
from towpath.web.auth import runtime_of

T = TypeVar("T")

REPEATED = "Idempotency-Replayed"
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_NAMESPACE = UUID("5b0a3c53-6f0e-4c3e-9a55-6c1f3b6f0d7e")

IdempotencyKey = Annotated[
    str | None,
    Header(
        description="Any text that is new for each thing to be done, such as a UUID. The same request with the same "
        "key is done once: for a day it gets the same answer.",
        max_length=200,
    ),
]


class ByHand(TypedDict):
    """What every change by hand is asked for."""

    who: str
    why: str


class ChangeRequest:
    """What a handler that changes something is given."""

    def __init__(self, request: Request, idempotency_key: IdempotencyKey = None) -> None:
        self._request = request
        self._key = idempotency_key

    @property
    def principal(self) -> Principal:
        """Who asks for it, as the dependency of the route has let them in."""
        principal: Principal = self._request.state.principal
        return principal

    def by(self, why: str) -> ByHand:
        """In whose name, and why."""
        return {"who": self.principal.name, "why": why}

    def make(
        self,
        what: str,
        subject: object,
        act: Callable[[], T],
        show: Callable[[T | None], Any],
        *,
        status: int = 200,
        is_secret: bool = False,
        is_repeatable: bool = False,
    ) -> Response:
        """Do it, and answer with what `show` makes of it; it gets None when only the answer was lost."""
        principal = self.principal
        self._request.state.is_recorded = True
        asked = AuditRequest(principal.name, principal.by, what, str(subject), self._request.state.request_id)
        change = RequestedChange(act, lambda made: ChangeAnswer(status, _text(show(made))), is_secret, is_repeatable)
        answer = runtime_of(self._request).access.changes.make(asked, change, self._idempotency())
        headers = {REPEATED: "true"} if answer.is_repeated else {}
        return Response(answer.body, answer.status, headers, "application/json")

    def same_id(self) -> str | None:
        """For something new: an id that is the same when this is asked for again; none: there is no idempotency key."""
        return None if self._key is None else str(uuid5(_NAMESPACE, f"{self.principal.name}\n{self._key}"))

    def _idempotency(self) -> Idempotency | None:
        if self._key is None:
            return None
        if not _KEY.fullmatch(self._key):
            raise BadValue("an idempotency key has 1 to 200 printable ASCII characters without spaces")
        return Idempotency(self._key, self._request.state.asked)


Maker = Annotated[ChangeRequest, Depends(ChangeRequest)]


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Exact) else to_json(value).decode()


def exact(value: Any) -> Exact:
    """For a change: what is shown of it."""
    return Exact(exact_json.to_json(value))


def exactly(value: Any) -> Response:
    """For a look."""
    return Response(exact_json.to_json(value), media_type="application/json")
