"""Users, keys and the trail as they are sent and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from towpath.access.audit_store import AuditRow
from towpath.access.key import Key
from towpath.access.outcome import Outcome
from towpath.access.principal import Principal
from towpath.access.role import Role, Scope
from towpath.access.user import User
from towpath.web.model import Sent, Why

LONGEST_AGE_S = 100 * 365 * 86400.0

Name = Annotated[str, Field(min_length=1, max_length=80)]
Password = Annotated[str, Field(min_length=12, max_length=1024, description="At least 12 characters.")]


class Me(BaseModel):
    """Who asks, and what they may do with this key."""

    name: str
    role: Role
    scopes: list[Scope]

    @classmethod
    def of(cls, principal: Principal) -> Me:
        return cls(name=principal.name, role=principal.role, scopes=[s for s in Scope if s in principal.scopes])


class UserOut(BaseModel):
    """A user."""

    name: str
    role: Role
    is_enabled: bool
    has_password: bool
    made_at: datetime
    disabled_at: datetime | None

    @classmethod
    def of(cls, user: User) -> UserOut:
        return cls(
            name=user.name,
            role=user.role,
            is_enabled=user.is_enabled,
            has_password=user.has_password,
            made_at=user.made_at,
            disabled_at=user.disabled_at,
        )


class NewUser(Sent):
    """A user to be added; without a password they can use keys only."""

    name: Name
    role: Role
    password: Password | None = Field(None, repr=False)
    why: Why


class NewRole(Sent):
    """Another role."""

    role: Role
    why: Why


class NewPassword(Sent):
    """A new password."""

    password: Password = Field(repr=False)
    why: Why


class NewKey(Sent):
    """A key to be made."""

    user: Name
    scopes: list[Scope] = Field(min_length=1)
    label: str = Field("key", min_length=1, max_length=100, description="What it is for.")
    age_s: float | None = Field(
        None, gt=0, le=LONGEST_AGE_S, description="How long it counts; the setting access.key_age_s if not given."
    )
    is_endless: bool = Field(False, description="It counts until it is revoked.")
    why: Why


class KeyOut(BaseModel):
    """A key, without what opens anything."""

    id: str
    prefix: str
    user: str
    label: str
    scopes: list[Scope]
    made_by: str
    made_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    used_at: datetime | None

    @classmethod
    def of(cls, key: Key) -> KeyOut:
        return cls.model_validate(
            {name: list(key.scopes) if name == "scopes" else getattr(key, name) for name in cls.model_fields}
        )


class MadeKey(KeyOut):
    """A new key, and what it is: this is the only time that it is shown."""

    key: str = Field(repr=False)


class AuditOut(BaseModel):
    """What was asked for in whose name, and what came of it."""

    seq: int
    at: datetime
    who: str
    by: str
    what: str
    subject: str
    outcome: Outcome
    reason: str
    request: str

    @classmethod
    def of(cls, row: AuditRow) -> AuditOut:
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class MadeLink(BaseModel):
    """Where a user chooses a password, once."""

    user: str
    path: str = Field(description="At the console's address. It is shown this once.")
