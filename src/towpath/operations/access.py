"""Users, keys, the audit trail and block rules: what is asked of them, and how they are shown as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from towpath.access.changes import AuditRow, ChangeOutcome
from towpath.access.keys import ApiKey
from towpath.access.roles import Principal, Role, Scope
from towpath.access.users import User
from towpath.blocks.rule import LONGEST_KEY, LONGEST_NAME, BlockAction, BlockMatch
from towpath.blocks.service import Block
from towpath.core.expression import LONGEST_TEXT
from towpath.operations.model import Item, RequestBody, Why

LONGEST_AGE_S = 100 * 365 * 86400.0

Name = Annotated[str, Field(min_length=1, max_length=80)]
Password = Annotated[str, Field(min_length=12, max_length=1024, description="At least 12 characters.")]
BlockName = Annotated[str | None, Field(max_length=LONGEST_NAME)]
BlockKey = Annotated[str | None, Field(max_length=LONGEST_KEY)]
Until = Annotated[
    str,
    Field(
        max_length=40,
        description="When the rule ends: a date such as `2027-01-31`, to its end in UTC, or a time with its zone.",
    ),
]


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
        return cls.model_validate({name: getattr(user, name) for name in cls.model_fields})


class NewUser(RequestBody):
    """A user to be added; without a password they can use keys only."""

    name: Name
    role: Role
    password: Password | None = Field(None, repr=False)
    why: Why


class NewRole(RequestBody):
    """Another role."""

    role: Role
    why: Why


class NewPassword(RequestBody):
    """A new password."""

    password: Password = Field(repr=False)
    why: Why


class NewKey(RequestBody):
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
    def of(cls, key: ApiKey) -> KeyOut:
        return cls.model_validate(
            {name: list(key.scopes) if name == "scopes" else getattr(key, name) for name in cls.model_fields}
        )


class MadeKey(KeyOut):
    """A new key, and what it is: this is the only time that it is shown."""

    key: str = Field(repr=False)


class MadeLink(BaseModel):
    """Where a user chooses a password, once."""

    user: str
    path: str = Field(description="At the console's address. It is shown this once.")


class AuditOut(BaseModel):
    """What was asked for in whose name, and what came of it."""

    seq: int
    at: datetime
    who: str
    by: str
    what: str
    subject: str
    outcome: ChangeOutcome
    reason: str
    request: str

    @classmethod
    def of(cls, row: AuditRow) -> AuditOut:
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class NewBlock(RequestBody):
    """A rule: all that is said of its records must fit."""

    action: BlockAction = Field(description="`refuse`: they become cases. `ignore`: they are counted, and no more.")
    stream: BlockName = Field(None, description="Of which stream; known at the gateway only.")
    topic: BlockName = None
    sender: BlockName = Field(None, description="Of which sender of an upload.")
    user: BlockName = Field(None, description="Of uploads of which user; known at the gateway only.")
    key: BlockKey = Field(None, description="With this key.")
    prefix: BlockKey = Field(None, description="With a key that begins so.")
    where: Annotated[str | None, Field(max_length=LONGEST_TEXT)] = Field(
        None, description="An expression over `value`, `key` and `headers`, as policies have it."
    )
    until: Until
    approved_by: BlockName = Field(None, description="The person who answers for it; you, if nobody is named.")
    why: Why

    def match(self) -> BlockMatch:
        names = ("stream", "topic", "sender", "user", "key", "prefix")
        return BlockMatch.of(where=self.where, **{name: getattr(self, name) for name in names})


def block_item(found: Block) -> Item:
    return {
        "number": found.rule.number,
        "state": found.state,
        "action": found.rule.action,
        "match": found.rule.match.to_json(),
        "approved_by": found.approved_by,
        "made_by": found.made_by,
        "why": found.rule.why,
        "since": found.since,
        "until": found.until,
        "withdrawn_at": found.withdrawn_at,
        "withdrawn_by": found.withdrawn_by,
        "withdrawn_why": found.withdrawn_why,
        "caught": found.caught,
        "caught_at": found.caught_at,
    }
