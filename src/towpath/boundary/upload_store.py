"""The `upload` table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towpath.boundary.state import ENDED, MOVES, UploadMove, UploadState
from towpath.boundary.upload import Upload
from towpath.clock import MICROS
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.text import storable
from towpath.errors import IllegalUploadMove, UnknownUpload

TOUCHED_EVERY_S = 5
_QUERIES = {
    UploadMove.CLOSE: "close_upload",
    UploadMove.SEND: "send_upload",
    UploadMove.FINISH: "finish_upload",
    UploadMove.ABORT: "abort_upload",
    UploadMove.EXPIRE: "expire_upload",
}
_HAVE_A_REASON = (UploadMove.ABORT, UploadMove.EXPIRE)
_FORGETTING = ("forget_results", "forget_passes", "forget_senders", "forget_upload")


class UploadStore:
    """Reads and moves uploads inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.boundary", "uploads", database.dialect)

    def open(self, tx: Transaction, *, id: str, stream: str, owner: str, label: str) -> tuple[Upload, bool]:
        """The upload of that id, and whether it is new."""
        params = {"id": id, "stream": stream, "owner": storable(owner), "label": storable(label)}
        made = tx.rows(self._sql["open_upload"], params)
        return (Upload.from_row(made[0]), True) if made else (self.read(tx, id), False)

    def read(self, tx: Transaction, id: str) -> Upload:
        """One of them; raises `UnknownUpload`."""
        return self._one(tx, "read_upload", id)

    def locked(self, tx: Transaction, id: str) -> Upload:
        """One of them, which nobody else changes until the transaction ends; raises `UnknownUpload`."""
        return self._one(tx, "lock_upload", id)

    def touch(self, tx: Transaction, id: str) -> None:
        """Its client was heard of."""
        tx.run(self._sql["touch_upload"], {"id": id, "every_us": TOUCHED_EVERY_S * MICROS})

    def move(self, tx: Transaction, id: str, move: UploadMove, *, who: str = "", why: str = "") -> Upload:
        """Move it; `IllegalUploadMove` when it is not in a state that the move starts from."""
        reason = {"who": storable(who), "why": storable(why)} if move in _HAVE_A_REASON else {}
        rows = tx.rows(self._sql[_QUERIES[move]], {"id": id, **reason})
        if not rows:
            raise IllegalUploadMove(id, self.read(tx, id).state, move.name.lower(), MOVES[move].sources)
        return Upload.from_row(rows[0])

    # Closing

    def note_failure(self, tx: Transaction, id: str, why: str) -> Upload:
        """Its closing computations have failed once more."""
        return self._closing(tx, "note_failure", "note a failure", id, why=storable(why))

    def retry(self, tx: Transaction, id: str) -> Upload:
        """They are to be tried again as if they had never failed."""
        return self._closing(tx, "retry_closing", "retry", id)

    def _closing(self, tx: Transaction, query: str, act: str, id: str, **params: str) -> Upload:
        rows = tx.rows(self._sql[query], {"id": id, **params})
        if not rows:
            raise IllegalUploadMove(id, self.read(tx, id).state, act, (UploadState.CLOSING,))
        return Upload.from_row(rows[0])

    # Looking

    def page(
        self,
        tx: Transaction,
        *,
        limit: int,
        owner: str | None = None,
        stream: str | None = None,
        state: UploadState | None = None,
        before: int | None = None,
    ) -> list[Upload]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        query = "list_uploads" if owner is None else "list_uploads_of_owner"
        params = {"stream": stream, "state": state, "before": before, "limit": limit}
        return _uploads(tx.rows(self._sql[query], params if owner is None else {**params, "owner": owner}))

    def in_state(self, tx: Transaction, stream: str, state: UploadState, limit: int, after: int = 0) -> list[Upload]:
        """The oldest first; `after` is the `seq` of the last one of the page before."""
        params: dict[str, Any] = {"stream": stream, "state": state, "after": after, "limit": limit}
        return _uploads(tx.rows(self._sql["list_in_state"], params))

    def idle(
        self, tx: Transaction, state: UploadState, before_us: int, limit: int, stream: str | None = None
    ) -> list[Upload]:
        """Those whose client was not heard of since that time, the longest silent first."""
        params: dict[str, Any] = {"stream": stream, "state": state, "before": before_us, "limit": limit}
        return _uploads(tx.rows(self._sql["list_idle"], params))

    # Forgetting

    def ended(self, tx: Transaction, before_us: int, limit: int) -> list[Upload]:
        """Those that ended before that time, the oldest first."""
        return _uploads(tx.rows(self._sql["list_ended"], {"before": before_us, "limit": limit}))

    def forget(self, tx: Transaction, id: str) -> None:
        """Delete an upload that has ended, with all that is known of it."""
        upload = self.locked(tx, id)
        if not upload.is_ended:
            raise IllegalUploadMove(id, upload.state, "forget", ENDED)
        for query in _FORGETTING:
            tx.run(self._sql[query], {"id": id})

    def _one(self, tx: Transaction, query: str, id: str) -> Upload:
        rows = tx.rows(self._sql[query], {"id": id})
        if not rows:
            raise UnknownUpload(id)
        return Upload.from_row(rows[0])


def _uploads(rows: Sequence[Row]) -> list[Upload]:
    return [Upload.from_row(row) for row in rows]
