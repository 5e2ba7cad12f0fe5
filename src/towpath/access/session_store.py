"""The tables `access_session`, `access_link` and `access_view`."""

from __future__ import annotations

from uuid import uuid4

from towpath.access.key import hashed
from towpath.access.role import Role
from towpath.access.session import Session, SessionAndUser
from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.errors import BadValue, LinkUsed, UnknownView

LONGEST_SHOWN = 200  # of an address or the name of a browser
MOST_VIEWS = 50


class SessionStore:
    """Reads and changes sessions, links and saved views inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "sessions", database.dialect)

    def add(self, tx: Transaction, secret: str, *, user: str, address: str, browser: str, expires_us: int) -> Session:
        params = {
            "hash": hashed(secret),
            "id": str(uuid4()),
            "user_name": user,
            "address": storable(address)[:LONGEST_SHOWN],
            "browser": storable(browser)[:LONGEST_SHOWN],
            "expires_at": expires_us,
        }
        return Session.from_row(tx.rows(self._sql["add_session"], params)[0])

    def with_user(self, tx: Transaction, secret: str) -> SessionAndUser | None:
        rows = tx.rows(self._sql["session_with_user"], {"hash": hashed(secret)})
        if not rows:
            return None
        *columns, role, disabled_us = rows[0]
        return SessionAndUser(Session.from_row(tuple(columns)), Role(role), disabled_us is None)

    def note_seen(self, tx: Transaction, session: Session, not_since_us: int, expires_us: int) -> None:
        tx.run(self._sql["note_seen"], {"id": session.id, "not_since": not_since_us, "expires_at": expires_us})

    def of_user(self, tx: Transaction, user: str, limit: int) -> list[Session]:
        """Those that count, the newest first."""
        rows = tx.rows(self._sql["list_sessions"], {"user_name": user, "limit": limit})
        return [Session.from_row(row) for row in rows]

    def end(self, tx: Transaction, session_id: str) -> None:
        tx.run(self._sql["end_session"], {"id": session_id})

    def end_all(self, tx: Transaction, user: str, but: str | None = None) -> int:
        """None of a user's sessions counts any more, but this one."""
        nobody = "00000000-0000-0000-0000-000000000000"
        return tx.run(self._sql["end_sessions_of_user"], {"user_name": user, "but": but or nobody})

    def forget(self, tx: Transaction, limit: int) -> int:
        return tx.run(self._sql["forget_sessions"], {"limit": limit})

    # Links

    def add_link(self, tx: Transaction, secret: str, *, user: str, made_by: str, expires_us: int) -> None:
        tx.run(self._sql["void_links"], {"user_name": user})
        params = {"hash": hashed(secret), "user_name": user, "made_by": storable(made_by), "expires_at": expires_us}
        tx.run(self._sql["add_link"], params)

    def link_user(self, tx: Transaction, secret: str) -> str:
        """Whom a link lets in; raises `LinkUsed`."""
        rows = tx.rows(self._sql["link_user"], {"hash": hashed(secret)})
        if not rows:
            raise LinkUsed()
        return str(rows[0][0])

    def use_link(self, tx: Transaction, secret: str) -> str:
        """The same, and it is used up."""
        rows = tx.rows(self._sql["use_link"], {"hash": hashed(secret)})
        if not rows:
            raise LinkUsed()
        return str(rows[0][0])

    def forget_links(self, tx: Transaction, limit: int) -> int:
        return tx.run(self._sql["forget_links"], {"limit": limit})

    # Saved views

    def save_view(self, tx: Transaction, user: str, name: str, address: str) -> None:
        if tx.rows(self._sql["count_views"], {"user_name": user, "name": name})[0][0] >= MOST_VIEWS:
            raise BadValue(f"there are {MOST_VIEWS} saved views, which is the most; delete one")
        tx.run(self._sql["save_view"], {"user_name": user, "name": name, "address": address})

    def views(self, tx: Transaction, user: str) -> list[tuple[str, str]]:
        """Name and address of each."""
        rows = tx.rows(self._sql["list_views"], {"user_name": user, "limit": MOST_VIEWS})
        return [(str(name), str(address)) for name, address in rows]

    def delete_view(self, tx: Transaction, user: str, name: str) -> None:
        if not tx.rows(self._sql["delete_view"], {"user_name": user, "name": name}):
            raise UnknownView(name)
