"""Passwords as they are stored: by argon2id, with a salt of their own, and with the parameters, which can grow."""

from __future__ import annotations

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from towpath.errors import BadValue

SHORTEST = 12
LONGEST_BYTES = 1024

# The second choice of RFC 9106, for memory that is shared: 64 MiB, about a tenth of a second for each try.
HASHER = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)


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


def stored(password: str) -> str:
    """What is kept of a password: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`."""
    return HASHER.hash(check_password(password))


def fits(password: str, kept: str | None) -> bool:
    """Whether it is the password. Takes as long for a user who has none, or who is not there."""
    try:
        HASHER.verify(kept or _nobodys(), password[:LONGEST_BYTES])
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False
    return kept is not None


@cache
def _nobodys() -> str:
    return HASHER.hash("nobody has this password")
