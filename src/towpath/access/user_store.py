"""The table `access_user`."""

from __future__ import annotations

from typing import Any

from towpath.access.role import Role
from towpath.access.user import User
from towpath.db import Database, Queries, Transaction
from towpath.errors import UnknownUser, UserExists


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
        """One of them; raises `UnknownUser`."""
        return self._one(tx, "read_user", name)

    def find(self, tx: Transaction, name: str) -> User | None:
        rows = tx.rows(self._sql["read_user"], {"name": name})
        return User.from_row(rows[0]) if rows else None

    def all(self, tx: Transaction) -> list[User]:
        return [User.from_row(row) for row in tx.rows(self._sql["list_users"], {})]

    def admins(self, tx: Transaction) -> list[str]:
        """Admins who are enabled, whom nobody else changes until the transaction ends."""
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
