"""A user as the row has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from towpath.access.role import Role
from towpath.clock import to_datetime
from towpath.db.database import Row
from towpath.errors import BadName

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,79}")


def check_user_name(name: str) -> str:
    """The name, if a user may have it; case counts."""
    if not _NAME.fullmatch(name):
        raise BadName(f"{name!r} is not a usable name: 1 to 80 letters, digits and . _ @ + -, the first no sign")
    return name


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may use Towpath over HTTP."""

    name: str
    role: Role
    password: str | None = field(repr=False)
    disabled_us: int | None
    made_us: int
    password_us: int | None

    @property
    def is_enabled(self) -> bool:
        return self.disabled_us is None

    @property
    def has_password(self) -> bool:
        return self.password is not None

    @property
    def made_at(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def disabled_at(self) -> datetime | None:
        return None if self.disabled_us is None else to_datetime(self.disabled_us)

    @property
    def password_at(self) -> datetime | None:
        return None if self.password_us is None else to_datetime(self.password_us)

    @classmethod
    def from_row(cls, row: Row) -> User:
        name, role, *rest = row
        return cls(name, Role(role), *rest)
