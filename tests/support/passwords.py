"""Passwords of people in tests are hashed at once; those of users take a tenth of a second each time."""

from __future__ import annotations

from argon2 import PasswordHasher

from towpath.access import users

HASHER_OF_USERS = users.HASHER


def quicken_passwords() -> None:
    """In this process. Its children hash as users' processes do, and read what is stored here."""
    users.HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
