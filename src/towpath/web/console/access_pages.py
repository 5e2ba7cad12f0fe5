"""Who may do what: users, API keys, and the trail of what was asked for in whose name."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.role import SCOPES, Role, Scope
from towpath.web.asking import Admin, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, chosen, cut
from towpath.web.console.pages import page

router = APIRouter(include_in_schema=False)

ROWS = 50
DAY_S = 86400.0


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
    by = {"who": principal.name, "why": act.why}

    def add() -> str:
        access.add_user(name, role, **by)
        return access.sessions.make_link(name, **by)

    secret = act.make(principal, "add user", name, add)
    return _shown_link(act.request, name, secret)


@router.post("/users/{name}/link")
def link(name: str, act: Act, principal: Admin) -> Response:
    """A link with which a user chooses a password, shown once."""
    sessions = act.runtime.access.sessions
    secret = act.make(principal, "make link", name, lambda: sessions.make_link(name, who=principal.name, why=act.why))
    return _shown_link(act.request, name, secret)


@router.post("/users/{name}/role")
def set_role(name: str, act: Act, principal: Admin) -> Response:
    """Another role, at once."""
    access, role = act.runtime.access, act.form.one("role")
    said = f"{name} is {role} now"
    return act.do(
        principal, "set role", name, lambda: access.set_role(name, role, who=principal.name, why=act.why), said
    )


@router.post("/users/{name}/disable")
def disable(name: str, act: Act, principal: Admin) -> Response:
    """A user and their keys open nothing from now on."""
    access = act.runtime.access
    said = f"{name} and their keys open nothing from now on"
    return act.do(
        principal, "disable user", name, lambda: access.disable_user(name, who=principal.name, why=act.why), said
    )


@router.post("/users/{name}/enable")
def enable(name: str, act: Act, principal: Admin) -> Response:
    """A user may use Towpath again."""
    access = act.runtime.access
    said = f"{name} may use Towpath again"
    return act.do(
        principal, "enable user", name, lambda: access.enable_user(name, who=principal.name, why=act.why), said
    )


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
        principal,
        "make key",
        form.text("user"),
        lambda: access.make_key(
            form.text("user"),
            form.all("scope"),
            who=principal.name,
            why=act.why,
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
        principal,
        "revoke key",
        key,
        lambda: access.revoke_key(key, who=principal.name, why=act.why),
        lambda made: f"{made.prefix}… opens nothing any more",
    )


@router.get("/trail")
def trail(request: Request, principal: Admin) -> Response:
    """What was asked for in whose name, the newest first."""
    access = runtime_of(request).access
    found = access.trail(limit=ROWS + 1, before=before_of(request), **chosen(request, "who", "subject"))
    shown, after = cut(found, ROWS)
    return page(request, "trail.html", rows=shown, next=after)


def _shown_link(request: Request, name: str, secret: str) -> Response:
    return page(
        request, "link_made.html", name=name, link=f"{request.url.scheme}://{request.url.netloc}/welcome/{secret}"
    )
