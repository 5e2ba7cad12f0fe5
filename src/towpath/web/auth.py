"""Who asks, and whether they may: one dependency for every route; and the forms of pages, which hold no files."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from towpath.access.changes import AuditRequest
from towpath.access.roles import Principal, Scope
from towpath.errors import BadValue, ForeignForm, NotLoggedIn

if TYPE_CHECKING:
    from towpath.runtime import Runtime


SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
SESSION = "towpath_session"  # the cookie of a browser

TOKEN_FIELD = "token"  # noqa: S105 - a name
TOKEN_HEADER = "X-Form-Token"  # noqa: S105 - a name
MOST_FIELDS = 10_100
_FORM_TYPE = "application/x-www-form-urlencoded"

_bearer = HTTPBearer(auto_error=False, scheme_name="key", description="An API key: `towpath key make`.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def runtime_of(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


class RequiredScope:
    """A dependency that lets in who has the scope, or one of several. The only place where that is decided."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    def __call__(self, request: Request, credentials: Credentials) -> Principal:
        principal = _recognised(request, credentials)
        request.state.principal = principal
        principal.check(*self.scopes)
        _check_text(request)
        return principal


Reader = Annotated[Principal, Depends(RequiredScope(Scope.READ))]
Worker = Annotated[Principal, Depends(RequiredScope(Scope.DESK_WRITE))]
PolicyMaker = Annotated[Principal, Depends(RequiredScope(Scope.POLICY_WRITE))]
FlowKeeper = Annotated[Principal, Depends(RequiredScope(Scope.FLOW_WRITE))]
QueueKeeper = Annotated[Principal, Depends(RequiredScope(Scope.QUEUE_WRITE))]
ActorKeeper = Annotated[Principal, Depends(RequiredScope(Scope.ACTOR_WRITE))]
ProcessKeeper = Annotated[Principal, Depends(RequiredScope(Scope.PROCESS_WRITE))]
DataKeeper = Annotated[Principal, Depends(RequiredScope(Scope.DATA_WRITE))]
Admin = Annotated[Principal, Depends(RequiredScope(Scope.ADMIN))]


def scopes_of(route: APIRoute) -> tuple[Scope, ...]:
    """What a route needs one of; nothing: it is open."""
    found = [each.scopes for each in _calls(route.dependant) if isinstance(each, RequiredScope)]
    return found[0] if found else ()


def note_refused(request: Request, reason: str) -> None:
    """A change that came to nothing before it was tried, in the trail, if it is known who asked for it."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None or request.method in SAFE or getattr(request.state, "is_recorded", False):
        return
    what = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
    asked = AuditRequest(principal.name, principal.by, what, request.url.path, request.state.request_id)
    runtime_of(request).access.changes.refused(asked, reason)


class FormData:
    """What was filled in. A field that is not there is empty."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def one(self, name: str) -> str:
        """The last value of a field, as it is."""
        return next((value for key, value in reversed(self._fields) if key == name), "")

    def text(self, name: str) -> str:
        """The same without space around it."""
        return self.one(name).strip()

    def lines(self, name: str) -> str:
        """A text of several lines, with the ends that it had before a browser sent it."""
        return self.one(name).replace("\r\n", "\n")

    def maybe(self, name: str) -> str | None:
        """Nothing was filled in: none."""
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        """Every value: of boxes that were ticked."""
        return [value for key, value in self._fields if key == name]

    def written(self) -> list[tuple[str, str]]:
        """Fields with something in them, without those of which there are several: they were ticked, not written."""
        times = Counter(name for name, _ in self._fields)
        return [(name, value) for name, value in self._fields if value and times[name] == 1]

    def is_ticked(self, name: str) -> bool:
        return self.one(name) != ""

    def number(self, name: str) -> float | None:
        """A number, none when nothing was filled in."""
        text = self.maybe(name)
        if text is None:
            return None
        with suppress(ValueError):
            if isfinite(value := float(text)):
                return value
        raise BadValue(f"{name}: {text!r} is not a number")

    def whole(self, name: str) -> int | None:
        """A whole number, none when nothing was filled in."""
        text = self.maybe(name)
        if text is None:
            return None
        if not text.lstrip("-").isdecimal() or not text.isascii() or len(text) > 18:
            raise BadValue(f"{name}: {text!r} is not a whole number")
        return int(text)


def form_of(request: Request) -> FormData:
    """The form that came with a request; an empty one when there is none."""
    found: FormData | None = getattr(request.state, "form", None)
    if found is None:
        request.state.form = found = _read(request)
    return found


def _recognised(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Principal:
    """By the key that came with the request, or by the session of a browser."""
    access = runtime_of(request).access
    if credentials is not None:
        return access.log_in.by_key(credentials.credentials)
    secret = request.cookies.get(SESSION)
    if secret is None:
        raise NotLoggedIn("this needs a key: Authorization: Bearer tp_…")
    principal, token = access.sessions.by_secret(secret)
    request.state.form_token = token
    if request.method not in SAFE:
        _check_form(request, token)
    return principal


def _check_form(request: Request, token: str) -> None:
    """A browser sends its cookies with whatever page asks for it: only a form of ours knows the token."""
    given = request.headers.get(TOKEN_HEADER) or form_of(request).one(TOKEN_FIELD)
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise ForeignForm()


def _check_text(request: Request) -> None:
    """No database can hold NUL; bodies are checked by their models."""
    for text in (*request.path_params.values(), *request.query_params.values()):
        if "\x00" in str(text):
            raise BadValue("a NUL character stands in the path or the query")


def _calls(dependant: Dependant) -> Iterator[object]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls(each)


def _read(request: Request) -> FormData:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        return FormData([])
    body: bytes = getattr(request.state, "body", b"")
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise BadValue("the form cannot be read") from None
    if any("\x00" in part for field in fields for part in field):
        raise BadValue("a NUL character stands in the form")
    return FormData(fields)
