"""The table `notify_notice`."""

from __future__ import annotations

import json

from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.notify.notice import Notice, StoredNotice

LONGEST_TITLE = 300
LONGEST_SUBJECT = 300


class NoticeStore:
    """Writes and moves notices inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.notify", "notices", database.dialect)

    def add(self, tx: Transaction, notice: Notice, not_since_us: int) -> bool:
        """Whether it is new: the same neither waits nor was handed over since then."""
        named = {"kind": notice.kind, "subject": storable(notice.subject)[:LONGEST_SUBJECT]}
        if tx.rows(self._sql["count_again"], {**named, "not_since": not_since_us}):
            return False
        params = {
            **named,
            "title": storable(notice.title)[:LONGEST_TITLE],
            "data": storable(json.dumps(dict(notice.data), default=str)),
        }
        return bool(tx.rows(self._sql["add_notice"], params)[0][0] == 1)

    def waiting_since_us(self, tx: Transaction) -> int | None:
        since: int | None = tx.rows(self._sql["waiting_since"], {})[0][0]
        return since

    def last_handed_us(self, tx: Transaction) -> int | None:
        last: int | None = tx.rows(self._sql["last_handed"], {})[0][0]
        return last

    def hand_over(self, tx: Transaction, limit: int) -> list[StoredNotice]:
        """The oldest that wait, which are handed over by this transaction."""
        rows = tx.rows(self._sql["hand_over"], {"limit": limit})
        return sorted(map(StoredNotice.from_row, rows), key=lambda notice: notice.seq)

    def page(self, tx: Transaction, *, limit: int, before: int | None) -> list[StoredNotice]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        rows = tx.rows(self._sql["list_notices"], {"limit": limit, "before": before})
        return [StoredNotice.from_row(row) for row in rows]

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_notices"], {"older_than": older_than_us, "limit": limit})
