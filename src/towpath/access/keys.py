"""API keys and their table `access_key`.

A key is `tp_<prefix>_<secret>`. The prefix names it among people; what it hashes to is kept, the key itself nowhere.
The secret has 256 random bits, so that a fast hash is enough: nobody can try them all.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from towpath.access.roles import Role, Scope
from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.errors import BadValue, KeyEnded, UnknownKey

_ALPHABET = string.ascii_lowercase + string.digits
_KEY = re.compile(r"(tp_[a-z0-9]{8})_[A-Za-z0-9_-]{43}")
LEAST_NAMED = 7  # of how a key begins: a slip must not name one by chance
_NO_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its row has it, without the secret."""

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
    def from_row(cls, row: Row) -> ApiKey:
        values: list[Any] = list(row)
        values[1] = str(values[1])
        values[6] = tuple(map(Scope, json.loads(values[6])))
        return cls(*values)


class KeyAndUser(NamedTuple):
    """A key, and what is needed to decide whether it is accepted."""

    key: ApiKey
    role: Role
    is_enabled: bool


class KeyToken(NamedTuple):
    """A new key in full, which is shown only once."""

    text: str
    prefix: str

    def __repr__(self) -> str:
        return f"Token({self.prefix}_…)"


class KeyStore:
    """Reads and changes keys inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "keys", database.dialect)

    def add(
        self,
        tx: Transaction,
        token: KeyToken,
        *,
        user: str,
        label: str,
        scopes: Sequence[Scope],
        made_by: str,
        expires_us: int | None,
    ) -> ApiKey:
        params = {
            "id": str(uuid4()),
            "prefix": token.prefix,
            "hash": hash_secret(token.text),
            "user_name": user,
            "label": storable(label),
            "scopes": json.dumps(list(scopes)),
            "made_by": storable(made_by),
            "expires_at": expires_us,
        }
        return ApiKey.from_row(tx.rows(self._sql["add_key"], params)[0])

    def with_user(self, tx: Transaction, prefix: str) -> KeyAndUser | None:
        rows = tx.rows(self._sql["key_with_user"], {"prefix": prefix})
        if not rows:
            return None
        *columns, role, disabled_us = rows[0]
        return KeyAndUser(ApiKey.from_row(tuple(columns)), Role(role), disabled_us is None)

    def find(self, tx: Transaction, text: str) -> ApiKey:
        """The key of that id, or the one that begins so; raises `UnknownKey`."""
        text = text.strip()
        params = {"id": _id_or_none(text), "text": storable(text), "size": len(text)}
        rows = tx.rows(self._sql["keys_beginning"], params) if len(text) >= LEAST_NAMED else []
        if not rows:
            raise UnknownKey(text)
        if len(rows) > 1:
            raise BadValue(f"several keys begin with {text!r}; write more of it")
        return ApiKey.from_row(rows[0])

    def page(self, tx: Transaction, *, limit: int, before: int | None, user: str | None) -> list[ApiKey]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        params: dict[str, Any] = {"limit": limit, "before": before}
        query = "list_keys"
        if user is not None:
            query, params["user_name"] = "list_keys_of_user", user
        return [ApiKey.from_row(row) for row in tx.rows(self._sql[query], params)]

    def revoke(self, tx: Transaction, key: ApiKey, revoked_by: str) -> ApiKey:
        rows = tx.rows(self._sql["revoke_key"], {"id": key.id, "revoked_by": storable(revoked_by)})
        if not rows:
            raise KeyEnded(key.prefix)
        return ApiKey.from_row(rows[0])

    def note_use(self, tx: Transaction, key_id: str, not_since_us: int) -> None:
        tx.run(self._sql["note_use"], {"id": key_id, "not_since": not_since_us})


def new_token() -> KeyToken:
    prefix = "tp_" + "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return KeyToken(f"{prefix}_{secrets.token_urlsafe(32)}", prefix)


def prefix_of(text: str) -> str | None:
    """The prefix by which a key is found; None when the text cannot be a key."""
    found = _KEY.fullmatch(text)
    return found[1] if found else None


def hash_secret(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _id_or_none(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return _NO_ID
