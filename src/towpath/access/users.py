"""Users, their table `access_user`, and their passwords: argon2id, salted, with parameters that can grow."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from towpath.access.roles import Role
from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import BadName, BadValue, UnknownUser, UserExists

SHORTEST = 12  # characters of a password
LONGEST_BYTES = 1024
# The second choice of RFC 9106, for memory that is shared: 64 MiB, about a tenth of a second for each try.
HASHER = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,79}")


@dataclass(frozen=True, slots=True)
class User:
    """A person or program that may use Towpath over HTTP."""

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


class UserStore:
    """Reads and changes users inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "users", database.dialect)

    def add(self, tx: Transaction, name: str, role: Role, password: str | None) -> User:
        params = {"name": name, "role": role, "password": password, "has_password": int(password is not None)}
        rows = tx.rows(self._sql["add_user"], params)
        if not rows:
            raise UserExists(name)
        return User.from_row(rows[0])

    def read(self, tx: Transaction, name: str) -> User:
        """The user of that name; raises `UnknownUser`."""
        return self._one(tx, "read_user", name)

    def find(self, tx: Transaction, name: str) -> User | None:
        rows = tx.rows(self._sql["read_user"], {"name": name})
        return User.from_row(rows[0]) if rows else None

    def all(self, tx: Transaction) -> list[User]:
        return [User.from_row(row) for row in tx.rows(self._sql["list_users"], {})]

    def admins(self, tx: Transaction) -> list[str]:
        """Enabled admins, locked until the transaction ends."""
        return [row[0] for row in tx.rows(self._sql["lock_admins"], {})]

    def set_role(self, tx: Transaction, name: str, role: Role) -> User:
        return self._one(tx, "set_role", name, role=role)

    def set_password(self, tx: Transaction, name: str, password: str) -> User:
        return self._one(tx, "set_password", name, password=password)

    def disable(self, tx: Transaction, name: str) -> User:
        return self._one(tx, "disable_user", name)

    def enable(self, tx: Transaction, name: str) -> User:
        return self._one(tx, "enable_user", name)

    def _one(self, tx: Transaction, query: str, name: str, **params: Any) -> User:
        rows = tx.rows(self._sql[query], {"name": name, **params})
        if not rows:
            raise UnknownUser(name)
        return User.from_row(rows[0])


def check_user_name(name: str) -> str:
    """The name, if a user may have it; case counts."""
    if not _NAME.fullmatch(name):
        raise BadName(f"{name!r} is not a usable name: 1 to 80 letters, digits and . _ @ + -, the first no sign")
    return name


def check_password(password: str) -> str:
    """The password, if it may be one. The error never repeats it."""
    if len(password) < SHORTEST:
        raise BadValue(f"a password has at least {SHORTEST} characters")
    try:
        size = len(password.encode())
    except UnicodeEncodeError:
        raise BadValue("a password is valid Unicode text") from None
    if size > LONGEST_BYTES:
        raise BadValue(f"a password has at most {LONGEST_BYTES} bytes")
    return password


def hash_password(password: str) -> str:
    """The hash that is stored for a password: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`."""
    return HASHER.hash(check_password(password))


def verify_password(password: str, kept: str | None) -> bool:
    """Whether it is the password. It takes as long for a user without one, or a name without a user."""
    try:
        HASHER.verify(kept or _nobodys(), password[:LONGEST_BYTES])
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False
    return kept is not None


@cache
def _nobodys() -> str:
    return HASHER.hash("nobody has this password")
