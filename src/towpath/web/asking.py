"""Who asks, and whether they may: one dependency for every route."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from towpath.access.audit_store import Asked
from towpath.access.principal import Principal
from towpath.access.role import Scope
from towpath.errors import BadValue, ForeignForm, NotLoggedIn
from towpath.web.form import TOKEN_FIELD, form_of

if TYPE_CHECKING:
    from towpath.runtime import Runtime

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
SESSION = "towpath_session"  # the cookie of a browser
TOKEN_HEADER = "X-Form-Token"  # noqa: S105 - a name

_bearer = HTTPBearer(auto_error=False, scheme_name="key", description="An API key: `towpath key make`.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def runtime_of(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


class Needs:
    """A dependency that lets in who has the scope, or one of them. The only place where that is decided."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    def __call__(self, request: Request, credentials: Credentials) -> Principal:
        principal = recognised(request, credentials)
        request.state.principal = principal
        principal.check(*self.scopes)
        _check_text(request)
        return principal


def note_refused(request: Request, reason: str) -> None:
    """A change that came to nothing before it was tried, in the trail, if it is known who asked for it."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None or request.method in SAFE or getattr(request.state, "is_recorded", False):
        return
    what = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
    asked = Asked(principal.name, principal.by, what, request.url.path, request.state.request_id)
    runtime_of(request).access.changes.refused(asked, reason)


def recognised(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Principal:
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


def needs(*scopes: Scope) -> Callable[..., Principal]:
    """For `Annotated[Principal, Depends(needs(Scope.READ))]`; of several, one is enough."""
    return Needs(*scopes)


def scopes_of(route: APIRoute) -> tuple[Scope, ...]:
    """What a route needs one of; nothing: it is open."""
    found = [each.scopes for each in _calls(route.dependant) if isinstance(each, Needs)]
    return found[0] if found else ()


def _calls(dependant: Dependant) -> Iterator[object]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls(each)


Reader = Annotated[Principal, Depends(needs(Scope.READ))]
Worker = Annotated[Principal, Depends(needs(Scope.DESK_WRITE))]
PolicyMaker = Annotated[Principal, Depends(needs(Scope.POLICY_WRITE))]
FlowKeeper = Annotated[Principal, Depends(needs(Scope.FLOW_WRITE))]
QueueKeeper = Annotated[Principal, Depends(needs(Scope.QUEUE_WRITE))]
ActorKeeper = Annotated[Principal, Depends(needs(Scope.ACTOR_WRITE))]
ProcessKeeper = Annotated[Principal, Depends(needs(Scope.PROCESS_WRITE))]
DataKeeper = Annotated[Principal, Depends(needs(Scope.DATA_WRITE))]
Admin = Annotated[Principal, Depends(needs(Scope.ADMIN))]
Scraper = Annotated[Principal, Depends(needs(Scope.METRICS))]
