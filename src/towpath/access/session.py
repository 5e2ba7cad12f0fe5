"""A session of a browser: what it holds, and one as its row has it.

The browser holds 256 random bits; what they hash to is kept. The token that forms carry is made from the same bits, so
that a page of somebody else cannot know it and nothing more has to be kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime

from towpath.access.role import Role
from towpath.clock import to_datetime
from towpath.db.database import Row

LONGEST_TOKEN = 100


def new_secret() -> str:
    """What a browser, or a link, holds."""
    return secrets.token_urlsafe(32)


def form_token(secret: str) -> str:
    """What a form of this session carries."""
    return hmac.new(secret.encode(), b"form", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Session:
    """One log-in of one browser."""

    id: str
    user: str
    address: str
    browser: str
    made_us: int
    seen_us: int
    expires_us: int

    @property
    def made_at(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def seen_at(self) -> datetime:
        return to_datetime(self.seen_us)

    @classmethod
    def from_row(cls, row: Row) -> Session:
        id, *rest = row
        return cls(str(id), *rest)


@dataclass(frozen=True, slots=True)
class SessionAndUser:
    """What has to be known to let a session in."""

    session: Session
    role: Role
    is_enabled: bool
