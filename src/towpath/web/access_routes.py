"""Users, keys and the trail."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from towpath.access.key import Key, Token
from towpath.access.user import User
from towpath.errors import ShownOnce
from towpath.web.access_models import (
    AuditOut,
    KeyOut,
    MadeKey,
    MadeLink,
    Me,
    NewKey,
    NewPassword,
    NewRole,
    NewUser,
    UserOut,
)
from towpath.web.asking import Admin, Reader, runtime_of
from towpath.web.changing import Maker
from towpath.web.model import PREFIX, Before, Limit, Page, Reason, page

router = APIRouter(prefix=PREFIX, tags=["access"])

Text = Annotated[str | None, Query(max_length=300)]


@router.get("/me")
def me(principal: Reader) -> Me:
    """Who you are, and what you may do with this key."""
    return Me.of(principal)


@router.get("/users")
def users(request: Request, principal: Admin) -> Page[UserOut]:
    """All users, by name."""
    return Page(items=[UserOut.of(user) for user in runtime_of(request).access.users()], next=None)


@router.post("/users", status_code=201, response_model=UserOut)
def add_user(request: Request, sent: NewUser, principal: Admin, maker: Maker) -> Response:
    """Add a user."""
    access = runtime_of(request).access
    return maker.make(
        principal,
        "add user",
        sent.name,
        lambda: access.add_user(sent.name, sent.role, who=principal.name, why=sent.why, password=sent.password),
        lambda made: UserOut.of(made or access.user(sent.name)),
        status=201,
    )


@router.get("/users/{name}")
def user(request: Request, name: str, principal: Admin) -> UserOut:
    """One user."""
    return UserOut.of(runtime_of(request).access.user(name))


@router.post("/users/{name}/role", response_model=UserOut)
def set_role(request: Request, name: str, sent: NewRole, principal: Admin, maker: Maker) -> Response:
    """Give a user another role. It counts at once, also for keys that there are."""
    access = runtime_of(request).access

    def act() -> User:
        return access.set_role(name, sent.role, who=principal.name, why=sent.why)

    return maker.make(principal, "set role", name, act, lambda made: UserOut.of(made or access.user(name)))


@router.post("/users/{name}/password", response_model=UserOut)
def set_password(request: Request, name: str, sent: NewPassword, principal: Admin, maker: Maker) -> Response:
    """Give a user a new password."""
    access = runtime_of(request).access

    def act() -> User:
        return access.set_password(name, sent.password, who=principal.name, why=sent.why)

    return maker.make(principal, "set password", name, act, lambda made: UserOut.of(made or access.user(name)))


@router.post("/users/{name}/link", status_code=201, response_model=MadeLink)
def make_link(request: Request, name: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Make a link with which a user chooses a password at the console, once. Earlier ones are void."""
    sessions = runtime_of(request).access.sessions

    def show(secret: str | None) -> MadeLink:
        if secret is None:
            raise ShownOnce("the link was made and shown once; make another if it was lost")
        return MadeLink(user=name, path=f"/welcome/{secret}")

    def act() -> str:
        return sessions.make_link(name, who=principal.name, why=sent.why)

    return maker.make(principal, "make link", name, act, show, status=201, is_secret=True)


@router.post("/users/{name}/disable", response_model=UserOut)
def disable(request: Request, name: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Let a user and their keys open nothing from now on."""
    access = runtime_of(request).access

    def act() -> User:
        return access.disable_user(name, who=principal.name, why=sent.why)

    return maker.make(principal, "disable user", name, act, lambda made: UserOut.of(made or access.user(name)))


@router.post("/users/{name}/enable", response_model=UserOut)
def enable(request: Request, name: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Let a user use Towpath again."""
    access = runtime_of(request).access

    def act() -> User:
        return access.enable_user(name, who=principal.name, why=sent.why)

    return maker.make(principal, "enable user", name, act, lambda made: UserOut.of(made or access.user(name)))


@router.get("/keys")
def keys(
    request: Request, principal: Admin, user: Text = None, limit: Limit = 100, before: Before = None
) -> Page[KeyOut]:
    """Keys, the newest first."""
    found = runtime_of(request).access.keys(user=user, limit=limit + 1, before=before)
    return page(found, limit, KeyOut.of)


@router.post("/keys", status_code=201, response_model=MadeKey)
def make_key(request: Request, sent: NewKey, principal: Admin, maker: Maker) -> Response:
    """Make a key. What it is, is shown this once and kept nowhere, not even under an idempotency key."""
    access = runtime_of(request).access

    def act() -> tuple[Key, Token]:
        age = None if sent.age_s is None else timedelta(seconds=sent.age_s)
        return access.make_key(
            sent.user,
            sent.scopes,
            who=principal.name,
            why=sent.why,
            label=sent.label,
            expires=age,
            is_endless=sent.is_endless,
        )

    def show(made: tuple[Key, Token] | None) -> MadeKey:
        if made is None:
            raise ShownOnce("the key was made and shown once; revoke it and make another if it was lost")
        key, token = made
        return MadeKey(**KeyOut.of(key).model_dump(), key=token.text)

    return maker.make(principal, "make key", sent.user, act, show, status=201, is_secret=True)


@router.post("/keys/{key}/revoke", response_model=KeyOut)
def revoke_key(request: Request, key: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Revoke a key, named by its id or by how it begins."""
    access = runtime_of(request).access

    def act() -> Key:
        return access.revoke_key(key, who=principal.name, why=sent.why)

    return maker.make(principal, "revoke key", key, act, lambda made: KeyOut.of(made or access.key(key)))


@router.get("/audit")
def audit(
    request: Request,
    principal: Admin,
    who: Text = None,
    subject: Text = None,
    limit: Limit = 100,
    before: Before = None,
) -> Page[AuditOut]:
    """What was asked for in whose name, the newest first."""
    found = runtime_of(request).access.trail(limit=limit + 1, before=before, who=who, subject=subject)
    return page(found, limit, AuditOut.of)
