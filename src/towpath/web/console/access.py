"""Who may do what: users, API keys, the audit trail and block rules. And logging in, looks and saved views."""

from __future__ import annotations

import math
from datetime import timedelta
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from towpath.access.roles import SCOPES, Role, Scope
from towpath.access.sessions import LoggedIn
from towpath.blocks.rule import BlockAction, BlockMatch, BlockState
from towpath.errors import BadValue, ForeignForm, NotLoggedIn, TooManyFailures
from towpath.operations.model import cut
from towpath.web.auth import SESSION, Admin, PolicyMaker, Reader, form_of, runtime_of
from towpath.web.console.layout.action import BACK, Act
from towpath.web.console.layout.lists import before_of, chosen, one_of
from towpath.web.console.layout.page import THEME, THEMES, page, went

router = APIRouter(include_in_schema=False)
session_router = APIRouter(include_in_schema=False)
block_router = APIRouter(prefix="/blocks", include_in_schema=False)

ROWS = 50
DAY_S = 86400.0
THEME_KEPT_S = 365 * 86400
MATCHED = ("stream", "topic", "sender", "user", "key", "prefix", "where")


@router.get("/users")
def users(request: Request, principal: Admin) -> Response:
    """All users, by name."""
    return page(request, "users.html", users=runtime_of(request).access.users(), roles=list(Role))


@router.get("/users/{name}")
def user(request: Request, name: str, principal: Admin) -> Response:
    """One user with their keys and sessions."""
    access = runtime_of(request).access
    return page(
        request,
        "user.html",
        user=access.user(name),
        keys=access.keys(user=name, limit=ROWS),
        sessions=access.sessions.of_user(name),
        roles=list(Role),
        trail=access.trail(who=name, limit=ROWS),
    )


@router.post("/users")
def add_user(act: Act, principal: Admin) -> Response:
    """A new user, with a link with which they choose a password."""
    name, role = act.form.text("name"), act.form.one("role")
    access = act.runtime.access
    by = act.by

    def add() -> str:
        access.add_user(name, role, **by)
        return access.sessions.make_link(name, **by)

    secret = act.make("add user", name, add)
    return _shown_link(act.request, name, secret)


@router.post("/users/{name}/link")
def link(name: str, act: Act, principal: Admin) -> Response:
    """A link with which a user chooses a password, shown once."""
    sessions = act.runtime.access.sessions
    secret = act.make("make link", name, lambda: sessions.make_link(name, **act.by))
    return _shown_link(act.request, name, secret)


@router.post("/users/{name}/role")
def set_role(name: str, act: Act, principal: Admin) -> Response:
    """Another role, at once."""
    access, role = act.runtime.access, act.form.one("role")
    said = f"{name} is {role} now"
    return act.do("set role", name, lambda: access.set_role(name, role, **act.by), said)


@router.post("/users/{name}/disable")
def disable(name: str, act: Act, principal: Admin) -> Response:
    """A user and their keys open nothing from now on."""
    access = act.runtime.access
    said = f"{name} and their keys open nothing from now on"
    return act.do("disable user", name, lambda: access.disable_user(name, **act.by), said)


@router.post("/users/{name}/enable")
def enable(name: str, act: Act, principal: Admin) -> Response:
    """A user may use Towpath again."""
    access = act.runtime.access
    said = f"{name} may use Towpath again"
    return act.do("enable user", name, lambda: access.enable_user(name, **act.by), said)


@router.get("/keys")
def keys(request: Request, principal: Admin) -> Response:
    """Keys, the newest first."""
    access = runtime_of(request).access
    found = access.keys(limit=ROWS + 1, before=before_of(request), **chosen(request, "user"))
    shown, after = cut(found, ROWS)
    return page(
        request,
        "keys.html",
        keys=shown,
        next=after,
        now_us=runtime_of(request).database.now(),
        users=[each.name for each in access.users() if each.is_enabled],
        scopes=list(Scope),
        allowed={role: sorted(SCOPES[role]) for role in Role},
    )


@router.post("/keys")
def make_key(act: Act, principal: Admin) -> Response:
    """A new key, shown once on the page that answers."""
    form, access = act.form, act.runtime.access
    days = form.number("days")
    key, token = act.make(
        "make key",
        form.text("user"),
        lambda: access.make_key(
            form.text("user"),
            form.all("scope"),
            **act.by,
            label=form.text("label") or "key",
            expires=None if days is None else timedelta(seconds=days * DAY_S),
        ),
    )
    return page(act.request, "key_made.html", key=key, text=token.text)


@router.post("/keys/{key}/revoke")
def revoke(key: str, act: Act, principal: Admin) -> Response:
    """A key opens nothing from now on."""
    access = act.runtime.access
    return act.do(
        "revoke key",
        key,
        lambda: access.revoke_key(key, **act.by),
        lambda made: f"{made.prefix}… opens nothing any more",
    )


@router.get("/trail")
def trail(request: Request, principal: Admin) -> Response:
    """What was asked for in whose name, the newest first."""
    access = runtime_of(request).access
    found = access.trail(limit=ROWS + 1, before=before_of(request), **chosen(request, "who", "subject"))
    shown, after = cut(found, ROWS)
    return page(request, "trail.html", rows=shown, next=after)


@block_router.get("")
def blocks(request: Request, principal: Reader) -> Response:
    """Rules, the newest first, with what each has caught."""
    state = one_of(request, "state", BlockState)
    found = runtime_of(request).blocks.list(state=state, limit=ROWS + 1, before=before_of(request))
    shown, after = cut(found, ROWS)
    return page(request, "blocks.html", blocks=shown, next=after, states=list(BlockState), actions=list(BlockAction))


@block_router.post("")
def add(act: Act, principal: PolicyMaker) -> Response:
    """A new rule, which counts at once."""
    form = act.form
    match = BlockMatch.of(**{name: form.maybe(name) for name in MATCHED})
    action = _action(form.one("action"))
    return act.do(
        "add block rule",
        match,
        lambda: act.runtime.blocks.add(action, match, until=form.text("until"), **act.by),
        lambda made: f"rule {made.rule.number} counts from now on",
        "/blocks",
    )


@block_router.post("/{number}/withdraw")
def withdraw(number: int, act: Act, principal: PolicyMaker) -> Response:
    """A rule does not count any more; what it has kept out stays out."""
    blocks = act.runtime.blocks
    return act.do(
        "withdraw block rule", number, lambda: blocks.withdraw(number, **act.by), f"rule {number} is withdrawn"
    )


@session_router.get("/login")
def log_in_page(request: Request) -> Response:
    """Where somebody logs in."""
    return page(request, "login.html", next=request.query_params.get("next", "/"), name="", wrong="")


@session_router.post("/login")
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


@session_router.post("/logout")
def log_out(request: Request, principal: Reader) -> Response:
    """The session ends."""
    runtime_of(request).access.sessions.end(principal)
    answer = went("/login", "you are logged out")
    answer.delete_cookie(SESSION, path="/")
    return answer


@session_router.get("/welcome/{secret}")
def welcome_page(request: Request, secret: str) -> Response:
    """Where a link leads that lets somebody choose a password. Looking does not use it up."""
    user = runtime_of(request).access.sessions.link_user(secret)
    return page(request, "welcome.html", user=user, wrong="")


@session_router.post("/welcome/{secret}")
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


@session_router.post("/theme")
def theme(request: Request) -> Response:
    """Light, dark, or as the system has it. Also for who is not logged in."""
    _check_origin(request)
    form = form_of(request)
    wanted = form.one("theme")
    answer = went(form.one(BACK) or "/")
    if wanted in THEMES:
        answer.set_cookie(THEME, wanted, max_age=THEME_KEPT_S, httponly=True, samesite="lax", path="/")
    return answer


@session_router.post("/views")
def save_view(act: Act, principal: Reader) -> Response:
    """Keep the address of a page, filters and all, under a name."""
    name, address = act.form.text("name"), act.form.one("address")
    sessions = act.runtime.access.sessions
    said = f"saved as “{name}”"
    return act.do("save view", name, lambda: sessions.save_view(principal.name, name, address), said, address)


@session_router.post("/views/delete")
def delete_view(act: Act, principal: Reader) -> Response:
    """Forget a saved view."""
    name = act.form.one("name")
    sessions = act.runtime.access.sessions
    return act.do("delete view", name, lambda: sessions.delete_view(principal.name, name), f"“{name}” is gone")


@session_router.get("/logout")
def no_log_out() -> Response:
    """A link logs nobody out: the button does."""
    return RedirectResponse("/", 303)


def _shown_link(request: Request, name: str, secret: str) -> Response:
    return page(
        request, "link_made.html", name=name, link=f"{request.url.scheme}://{request.url.netloc}/welcome/{secret}"
    )


def _refused(request: Request, error: NotLoggedIn) -> Response:
    form, status = form_of(request), 429 if isinstance(error, TooManyFailures) else 401
    answer = page(request, "login.html", status=status, next=form.one("next"), name=form.text("name"), wrong=str(error))
    if isinstance(error, TooManyFailures):
        answer.headers["Retry-After"] = str(math.ceil(error.after_s))
    return answer


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


def _action(text: str) -> BlockAction:
    try:
        return BlockAction(text)
    except ValueError:
        raise BadValue(f"{text!r} is not what a rule can do; there are: {', '.join(BlockAction)}") from None
