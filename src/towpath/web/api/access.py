"""Users, keys, the audit trail and block rules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from towpath.access.keys import ApiKey, KeyToken
from towpath.access.users import User
from towpath.blocks.rule import BlockState
from towpath.blocks.service import Block
from towpath.errors import ShownOnce
from towpath.operations.access import (
    AuditOut,
    KeyOut,
    MadeKey,
    MadeLink,
    Me,
    NewBlock,
    NewKey,
    NewPassword,
    NewRole,
    NewUser,
    UserOut,
    block_item,
)
from towpath.operations.model import Item, Page, Reason, page
from towpath.web.auth import Admin, PolicyMaker, Reader, runtime_of
from towpath.web.changes import Maker
from towpath.web.failures import PREFIX, Before, Limit, Number

if TYPE_CHECKING:
    from towpath.access.service import AccessService

router = APIRouter(prefix=PREFIX, tags=["access"])
block_router = APIRouter(prefix=f"{PREFIX}/blocks", tags=["blocks"])

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
        "add user",
        sent.name,
        lambda: access.add_user(sent.name, sent.role, **maker.by(sent.why), password=sent.password),
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
    return _change(maker, access, "set role", name, lambda: access.set_role(name, sent.role, **maker.by(sent.why)))


@router.post("/users/{name}/password", response_model=UserOut)
def set_password(request: Request, name: str, sent: NewPassword, principal: Admin, maker: Maker) -> Response:
    """Give a user a new password."""
    access, by = runtime_of(request).access, maker.by(sent.why)
    return _change(maker, access, "set password", name, lambda: access.set_password(name, sent.password, **by))


@router.post("/users/{name}/link", status_code=201, response_model=MadeLink)
def make_link(request: Request, name: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Make a link with which a user chooses a password at the console, once. Earlier ones are void."""
    sessions = runtime_of(request).access.sessions

    def show(secret: str | None) -> MadeLink:
        if secret is None:
            raise ShownOnce("the link was made and shown once; make another if it was lost")
        return MadeLink(user=name, path=f"/welcome/{secret}")

    def act() -> str:
        return sessions.make_link(name, **maker.by(sent.why))

    return maker.make("make link", name, act, show, status=201, is_secret=True)


@router.post("/users/{name}/disable", response_model=UserOut)
def disable(request: Request, name: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Let a user and their keys open nothing from now on."""
    access = runtime_of(request).access
    return _change(maker, access, "disable user", name, lambda: access.disable_user(name, **maker.by(sent.why)))


@router.post("/users/{name}/enable", response_model=UserOut)
def enable(request: Request, name: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Let a user use Towpath again."""
    access = runtime_of(request).access
    return _change(maker, access, "enable user", name, lambda: access.enable_user(name, **maker.by(sent.why)))


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

    def act() -> tuple[ApiKey, KeyToken]:
        age = None if sent.age_s is None else timedelta(seconds=sent.age_s)
        return access.make_key(
            sent.user,
            sent.scopes,
            **maker.by(sent.why),
            label=sent.label,
            expires=age,
            is_endless=sent.is_endless,
        )

    def show(made: tuple[ApiKey, KeyToken] | None) -> MadeKey:
        if made is None:
            raise ShownOnce("the key was made and shown once; revoke it and make another if it was lost")
        key, token = made
        return MadeKey(**KeyOut.of(key).model_dump(), key=token.text)

    return maker.make("make key", sent.user, act, show, status=201, is_secret=True)


@router.post("/keys/{key}/revoke", response_model=KeyOut)
def revoke_key(request: Request, key: str, sent: Reason, principal: Admin, maker: Maker) -> Response:
    """Revoke a key, named by its id or by how it begins."""
    access = runtime_of(request).access

    def act() -> ApiKey:
        return access.revoke_key(key, **maker.by(sent.why))

    return maker.make("revoke key", key, act, lambda made: KeyOut.of(made or access.key(key)))


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


@block_router.get("")
def blocks(
    request: Request, principal: Reader, state: BlockState | None = None, limit: Limit = 100, before: Before = None
) -> Page[Item]:
    """Block rules, the newest first."""
    found = runtime_of(request).blocks.list(state=state, limit=limit + 1, before=before)
    return page(found, limit, block_item)


@block_router.get("/{number}")
def show(request: Request, number: Number, principal: Reader) -> Item:
    """One rule, and what it has caught."""
    return block_item(runtime_of(request).blocks.show(number))


@block_router.post("", status_code=201, response_model=Item)
def add(request: Request, sent: NewBlock, principal: PolicyMaker, maker: Maker) -> Response:
    """Make a rule. It counts at once: at the gateway within a second, in flows from their next batch on."""
    blocks = runtime_of(request).blocks
    match = sent.match()

    def act() -> Block:
        return blocks.add(sent.action, match, until=sent.until, **maker.by(sent.why), approved_by=sent.approved_by)

    def show(made: Block | None) -> Item:  # None: the answer was lost, and nobody else has made the same since
        mine = (each for each in blocks.list() if each.made_by == principal.name and each.rule.match == match)
        return block_item(made or next(mine))

    return maker.make("add block rule", str(match), act, show, status=201)


@block_router.post("/{number}/withdraw", response_model=Item)
def withdraw(request: Request, number: Number, sent: Reason, principal: PolicyMaker, maker: Maker) -> Response:
    """Take a rule away. What it has kept out stays out; what comes from now on is taken."""
    blocks = runtime_of(request).blocks
    return maker.make(
        "withdraw block rule",
        number,
        lambda: blocks.withdraw(number, **maker.by(sent.why)),
        lambda made: block_item(made or blocks.show(number)),
    )


def _change(maker: Maker, access: AccessService, what: str, name: str, act: Callable[[], User]) -> Response:
    """One user, who is shown then."""
    return maker.make(what, name, act, lambda made: UserOut.of(made or access.user(name)))
