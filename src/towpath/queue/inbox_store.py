"""The `inbox` table: which inboxes there are, and what becomes of a message when its owner dies."""

from __future__ import annotations

from towpath.db import Database, Queries, Transaction
from towpath.errors import UnknownInbox
from towpath.queue.state import OnOwnerDeath


class InboxStore:
    """Registers inboxes and refuses names that nobody has registered."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.queue", "inboxes", database.dialect)
        self._database = database
        self._seen: frozenset[str] = frozenset()  # a name stays true: only old instances' inboxes are deleted

    def register(self, tx: Transaction, name: str, on_owner_death: OnOwnerDeath, max_attempts: int) -> None:
        tx.run(
            self._sql["register_inbox"],
            {
                "name": name,
                "on_owner_death": on_owner_death,
                "max_attempts": max_attempts,
            },
        )

    def register_for_replies(self, tx: Transaction, name: str) -> None:
        tx.run(self._sql["register_reply_inbox"], {"name": name})

    def names(self, tx: Transaction) -> list[str]:
        return [row[0] for row in tx.rows(self._sql["inbox_names"], {})]

    def check_known(self, name: str, tx: Transaction | None) -> None:
        """Raise `UnknownInbox` unless somebody has registered the name."""
        if name in self._seen:
            return
        if tx is not None:
            self._check(tx, name)
        else:
            with self._database.read() as reading:
                self._check(reading, name)
        if tx is None:  # what an open transaction shows may yet be rolled back
            self._seen = self._seen | {name}

    def _check(self, tx: Transaction, name: str) -> None:
        if not tx.rows(self._sql["is_inbox"], {"name": name}):
            raise UnknownInbox(name, self.names(tx))
