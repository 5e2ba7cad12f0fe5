"""API keys: how they are made, and one as its row has it.

A key is `tp_<prefix>_<secret>`. The prefix names it among people; what it hashes to is kept, the key itself nowhere.
The secret has 256 random bits, so that a fast hash is enough: nobody can try them all.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from towpath.access.role import Scope
from towpath.clock import to_datetime
from towpath.db.database import Row

_ALPHABET = string.ascii_lowercase + string.digits
_KEY = re.compile(r"(tp_[a-z0-9]{8})_[A-Za-z0-9_-]{43}")


class Token(NamedTuple):
    """A key in full. Shown once, to whoever asked for it."""

    text: str
    prefix: str

    def __repr__(self) -> str:
        return f"Token({self.prefix}_…)"


def new_token() -> Token:
    prefix = "tp_" + "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return Token(f"{prefix}_{secrets.token_urlsafe(32)}", prefix)


def prefix_of(text: str) -> str | None:
    """By what to look for the key; none: it cannot be one."""
    found = _KEY.fullmatch(text)
    return found[1] if found else None


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Key:
    """A key without what opens anything."""

    seq: int
    id: str
    prefix: str
    hash: str = field(repr=False)
    user: str
    label: str
    scopes: tuple[Scope, ...]
    made_by: str
    made_us: int
    expires_us: int | None
    revoked_us: int | None
    revoked_by: str | None
    used_us: int | None

    @property
    def made_at(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def expires_at(self) -> datetime | None:
        return None if self.expires_us is None else to_datetime(self.expires_us)

    @property
    def revoked_at(self) -> datetime | None:
        return None if self.revoked_us is None else to_datetime(self.revoked_us)

    @property
    def used_at(self) -> datetime | None:
        return None if self.used_us is None else to_datetime(self.used_us)

    def counts_at(self, now_us: int) -> bool:
        return self.revoked_us is None and (self.expires_us is None or now_us < self.expires_us)

    @classmethod
    def from_row(cls, row: Row) -> Key:
        values: list[Any] = list(row)
        values[1] = str(values[1])
        values[6] = tuple(map(Scope, json.loads(values[6])))
        return cls(*values)
