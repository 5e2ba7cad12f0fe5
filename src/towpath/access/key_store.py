"""The table `access_key`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

from towpath.access.key import Key, Token, hashed
from towpath.access.role import Role, Scope
from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.errors import BadValue, KeyEnded, UnknownKey

LEAST_NAMED = 7  # of how a key begins: a slip must not name one by chance
_NO_ID = "00000000-0000-0000-0000-000000000000"


class KeyAndUser(NamedTuple):
    """What has to be known to let a key in."""

    key: Key
    role: Role
    is_enabled: bool


class KeyStore:
    """Reads and changes keys inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "keys", database.dialect)

    def add(
        self,
        tx: Transaction,
        token: Token,
        *,
        user: str,
        label: str,
        scopes: Sequence[Scope],
        made_by: str,
        expires_us: int | None,
    ) -> Key:
        params = {
            "id": str(uuid4()),
            "prefix": token.prefix,
            "hash": hashed(token.text),
            "user_name": user,
            "label": storable(label),
            "scopes": json.dumps(list(scopes)),
            "made_by": storable(made_by),
            "expires_at": expires_us,
        }
        return Key.from_row(tx.rows(self._sql["add_key"], params)[0])

    def with_user(self, tx: Transaction, prefix: str) -> KeyAndUser | None:
        rows = tx.rows(self._sql["key_with_user"], {"prefix": prefix})
        if not rows:
            return None
        *columns, role, disabled_us = rows[0]
        return KeyAndUser(Key.from_row(tuple(columns)), Role(role), disabled_us is None)

    def find(self, tx: Transaction, text: str) -> Key:
        """The key of that id, or the one that begins so; raises `UnknownKey`."""
        text = text.strip()
        params = {"id": _id_or_none(text), "text": storable(text), "size": len(text)}
        rows = tx.rows(self._sql["keys_beginning"], params) if len(text) >= LEAST_NAMED else []
        if not rows:
            raise UnknownKey(text)
        if len(rows) > 1:
            raise BadValue(f"several keys begin with {text!r}; write more of it")
        return Key.from_row(rows[0])

    def page(self, tx: Transaction, *, limit: int, before: int | None, user: str | None) -> list[Key]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        query = "list_keys" if user is None else "list_keys_of_user"
        params = {"limit": limit, "before": before} | ({} if user is None else {"user_name": user})
        return [Key.from_row(row) for row in tx.rows(self._sql[query], params)]

    def revoke(self, tx: Transaction, key: Key, revoked_by: str) -> Key:
        rows = tx.rows(self._sql["revoke_key"], {"id": key.id, "revoked_by": storable(revoked_by)})
        if not rows:
            raise KeyEnded(key.prefix)
        return Key.from_row(rows[0])

    def note_use(self, tx: Transaction, key_id: str, not_since_us: int) -> None:
        tx.run(self._sql["note_use"], {"id": key_id, "not_since": not_since_us})


def _id_or_none(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return _NO_ID
