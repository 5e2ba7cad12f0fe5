"""Logging in and out, choosing a password by a link, how pages look, and saved views."""

from __future__ import annotations

import math
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from towpath.access.sessions import LoggedIn
from towpath.errors import BadValue, ForeignForm, NotLoggedIn, TooManyFailures
from towpath.web.asking import SESSION, Reader, runtime_of
from towpath.web.console.acting import BACK, Act
from towpath.web.console.flash import went
from towpath.web.console.pages import THEME, THEMES, page
from towpath.web.form import form_of

router = APIRouter(include_in_schema=False)

THEME_KEPT_S = 365 * 86400


@router.get("/login")
def log_in_page(request: Request) -> Response:
    """Where somebody logs in."""
    return page(request, "login.html", next=request.query_params.get("next", "/"), name="", wrong="")


@router.post("/login")
def log_in(request: Request) -> Response:
    """Name and password; wrong ones are told on the same page, and not which of the two it is."""
    _check_origin(request)
    form = form_of(request)
    sessions = runtime_of(request).access.sessions
    name = form.text("name")
    try:
        begun = sessions.begin(name, form.one("password"), address=_address(request), browser=_browser(request))
    except NotLoggedIn as error:
        return _refused(request, error)
    return _let_in(request, begun, form.one("next") or "/")


def _refused(request: Request, error: NotLoggedIn) -> Response:
    form, status = form_of(request), 429 if isinstance(error, TooManyFailures) else 401
    answer = page(request, "login.html", status=status, next=form.one("next"), name=form.text("name"), wrong=str(error))
    if isinstance(error, TooManyFailures):
        answer.headers["Retry-After"] = str(math.ceil(error.after_s))
    return answer


@router.post("/logout")
def log_out(request: Request, principal: Reader) -> Response:
    """The session ends."""
    runtime_of(request).access.sessions.end(principal)
    answer = went("/login", "you are logged out")
    answer.delete_cookie(SESSION, path="/")
    return answer


@router.get("/welcome/{secret}")
def welcome_page(request: Request, secret: str) -> Response:
    """Where a link leads that lets somebody choose a password. Looking does not use it up."""
    user = runtime_of(request).access.sessions.link_user(secret)
    return page(request, "welcome.html", user=user, wrong="")


@router.post("/welcome/{secret}")
def welcome(request: Request, secret: str) -> Response:
    """Choose a password by a link, once, and be logged in."""
    _check_origin(request)
    form = form_of(request)
    sessions = runtime_of(request).access.sessions
    password = form.one("password")
    try:
        if password != form.one("again"):
            raise BadValue("the two are not the same")
        begun = sessions.use_link(secret, password, address=_address(request), browser=_browser(request))
    except BadValue as error:
        user = sessions.link_user(secret)
        return page(request, "welcome.html", status=422, user=user, wrong=str(error))
    return _let_in(request, begun, "/")


@router.post("/theme")
def theme(request: Request) -> Response:
    """Light, dark, or as the system has it. Also for who is not logged in."""
    _check_origin(request)
    form = form_of(request)
    wanted = form.one("theme")
    answer = went(form.one(BACK) or "/")
    if wanted in THEMES:
        answer.set_cookie(THEME, wanted, max_age=THEME_KEPT_S, httponly=True, samesite="lax", path="/")
    return answer


@router.post("/views")
def save_view(act: Act, principal: Reader) -> Response:
    """Keep the address of a page, filters and all, under a name."""
    name, address = act.form.text("name"), act.form.one("address")
    sessions = act.runtime.access.sessions
    said = f"saved as “{name}”"
    return act.do(
        principal, "save view", name, lambda: sessions.save_view(principal.name, name, address), said, address
    )


@router.post("/views/delete")
def delete_view(act: Act, principal: Reader) -> Response:
    """Forget a saved view."""
    name = act.form.one("name")
    sessions = act.runtime.access.sessions
    return act.do(
        principal, "delete view", name, lambda: sessions.delete_view(principal.name, name), f"“{name}” is gone"
    )


def _let_in(request: Request, begun: LoggedIn, to: str) -> Response:
    answer = went(to)
    answer.set_cookie(
        SESSION, begun.secret, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/"
    )
    return answer


def _check_origin(request: Request) -> None:
    """Forms from before there is a session: a browser says whether they are from a page of ours."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "null")  # which is what it says of pages that name no referrer
    if site not in ("same-origin", "none") or urlsplit(origin).netloc not in ("", request.headers.get("host")):
        raise ForeignForm()


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _browser(request: Request) -> str:
    return request.headers.get("user-agent", "")


@router.get("/logout")
def no_log_out() -> Response:
    """A link logs nobody out: the button does."""
    return RedirectResponse("/", 303)
