"""The tables `upload` and `upload_sender`: uploads, how far each sender is, and what is under way to the log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from towpath.core.clock import MICROS
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.errors import IllegalUploadMove, UnknownSender, UnknownUpload
from towpath.gateway.uploads.model import (
    ENDED,
    MOVES,
    SenderPlan,
    SenderRequest,
    StoredUpload,
    UploadMove,
    UploadSender,
    UploadState,
    offsets_to_json,
)

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
        self._sql = Queries("towpath.gateway.uploads", "uploads", database.dialect)

    def open(self, tx: Transaction, *, id: str, stream: str, owner: str, label: str) -> tuple[StoredUpload, bool]:
        """The upload of that id, and whether it is new."""
        params = {"id": id, "stream": stream, "owner": storable(owner), "label": storable(label)}
        made = tx.rows(self._sql["open_upload"], params)
        return (StoredUpload.from_row(made[0]), True) if made else (self.read(tx, id), False)

    def read(self, tx: Transaction, id: str) -> StoredUpload:
        """One of them; raises `UnknownUpload`."""
        return self._one(tx, "read_upload", id)

    def locked(self, tx: Transaction, id: str) -> StoredUpload:
        """One of them, which nobody else changes until the transaction ends; raises `UnknownUpload`."""
        return self._one(tx, "lock_upload", id)

    def touch(self, tx: Transaction, id: str) -> None:
        """Its client was heard of."""
        tx.run(self._sql["touch_upload"], {"id": id, "every_us": TOUCHED_EVERY_S * MICROS})

    def move(self, tx: Transaction, id: str, move: UploadMove, *, who: str = "", why: str = "") -> StoredUpload:
        """Move it; `IllegalUploadMove` when it is not in a state that the move starts from."""
        reason = {"who": storable(who), "why": storable(why)} if move in _HAVE_A_REASON else {}
        rows = tx.rows(self._sql[_QUERIES[move]], {"id": id, **reason})
        if not rows:
            raise IllegalUploadMove(id, self.read(tx, id).state, move.name.lower(), MOVES[move].sources)
        return StoredUpload.from_row(rows[0])

    # Closing

    def note_failure(self, tx: Transaction, id: str, why: str) -> StoredUpload:
        """Its closing computations have failed once more."""
        return self._closing(tx, "note_failure", "note a failure", id, why=storable(why))

    def retry(self, tx: Transaction, id: str) -> StoredUpload:
        """Have the closing computations tried again as if they had never failed."""
        return self._closing(tx, "retry_closing", "retry", id)

    def _closing(self, tx: Transaction, query: str, act: str, id: str, **params: str) -> StoredUpload:
        rows = tx.rows(self._sql[query], {"id": id, **params})
        if not rows:
            raise IllegalUploadMove(id, self.read(tx, id).state, act, (UploadState.CLOSING,))
        return StoredUpload.from_row(rows[0])

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
    ) -> list[StoredUpload]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        query = "list_uploads" if owner is None else "list_uploads_of_owner"
        params = {"stream": stream, "state": state, "before": before, "limit": limit}
        return _uploads(tx.rows(self._sql[query], params if owner is None else {**params, "owner": owner}))

    def idle(
        self, tx: Transaction, state: UploadState, before_us: int, limit: int, stream: str | None = None
    ) -> list[StoredUpload]:
        """The uploads whose client was not heard of since that time, the longest silent first."""
        params: dict[str, Any] = {"stream": stream, "state": state, "before": before_us, "limit": limit}
        return _uploads(tx.rows(self._sql["list_idle"], params))

    # Forgetting

    def ended(self, tx: Transaction, before_us: int, limit: int) -> list[StoredUpload]:
        """The uploads that ended before that time, the oldest first."""
        return _uploads(tx.rows(self._sql["list_ended"], {"before": before_us, "limit": limit}))

    def forget(self, tx: Transaction, id: str) -> None:
        """Delete an upload that has ended, with all that is known of it."""
        upload = self.locked(tx, id)
        if not upload.is_ended:
            raise IllegalUploadMove(id, upload.state, "forget", ENDED)
        for query in _FORGETTING:
            tx.run(self._sql[query], {"id": id})

    def _one(self, tx: Transaction, query: str, id: str) -> StoredUpload:
        rows = tx.rows(self._sql[query], {"id": id})
        if not rows:
            raise UnknownUpload(id)
        return StoredUpload.from_row(rows[0])


def _uploads(rows: Sequence[Row]) -> list[StoredUpload]:
    return [StoredUpload.from_row(row) for row in rows]


class SenderStore:
    """Reads and changes senders inside a transaction that the caller opens.

    What changes one returns None when it was not as it had to be: the caller looks at it again, and says why.
    """

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.gateway.uploads", "senders", database.dialect)

    def add(self, tx: Transaction, upload: str, new: SenderRequest, place: int) -> None:
        """One more sender of an upload; `place` is where it stands among them."""
        params = {
            **_which(upload, new.name),
            "input": new.input,
            "format": new.format,
            "columns": _columns(new.columns),
            "line": new.first_line - 1,
            "place": place,
        }
        tx.run(self._sql["add_sender"], params)

    def read(self, tx: Transaction, upload: str, sender: str) -> UploadSender:
        """One of them; raises `UnknownSender`."""
        rows = tx.rows(self._sql["read_sender"], _which(upload, sender))
        if not rows:
            raise UnknownSender(upload, sender)
        return UploadSender.from_row(rows[0])

    def of_upload(self, tx: Transaction, upload: str) -> list[UploadSender]:
        """All of an upload, in the order in which they were named."""
        return [UploadSender.from_row(row) for row in tx.rows(self._sql["list_senders"], {"upload": upload})]

    def next_session(
        self, tx: Transaction, upload: str, sender: str, columns: Sequence[str] | None = None
    ) -> UploadSender | None:
        """A new connection, which alone counts from now on; None when nothing is taken of it any more."""
        return _first(tx.rows(self._sql["next_session"], {**_which(upload, sender), "columns": _columns(columns)}))

    def plan(self, tx: Transaction, sender: UploadSender, session: int, plan: SenderPlan) -> UploadSender | None:
        """Write down what is about to go into the log."""
        params = {"session": session, "position": sender.position, "plan": plan.to_json()}
        return self._change(tx, "plan_chunk", sender, **params)

    def settle(self, tx: Transaction, sender: UploadSender, plan: SenderPlan) -> UploadSender | None:
        """The plan is what is."""
        numbers = {name: value for name, value in asdict(plan).items() if name not in ("id", "caught")}
        return self._change(tx, "settle_plan", sender, plan=plan.to_json(), **numbers)

    def discard(self, tx: Transaction, sender: UploadSender, plan: SenderPlan) -> UploadSender | None:
        """The plan will never be."""
        return self._change(tx, "discard_plan", sender, plan=plan.to_json())

    def finish(
        self, tx: Transaction, sender: UploadSender, session: int, ends: Mapping[int, int]
    ) -> UploadSender | None:
        """Mark a sender as finished; `ends` is where each partition of its topic ends."""
        params = {"position": sender.position, "crc32": sender.crc32, "ends": offsets_to_json(ends)}
        return self._change(tx, "finish_sender", sender, session=session, **params)

    def receiving(self, tx: Transaction, upload: str) -> int:
        """How many of an upload have not finished."""
        return int(tx.rows(self._sql["count_receiving"], {"upload": upload})[0][0])

    def taken(self, tx: Transaction, upload: str) -> tuple[int, int]:
        """Bytes and lines of all senders of an upload."""
        bytes, lines = tx.rows(self._sql["count_taken"], {"upload": upload})[0]
        return int(bytes), int(lines)

    def unsettled(self, tx: Transaction, before_us: int, limit: int) -> list[UploadSender]:
        """The senders with a plan that has been open since that time."""
        return [
            UploadSender.from_row(row)
            for row in tx.rows(self._sql["list_unsettled"], {"before": before_us, "limit": limit})
        ]

    def _change(self, tx: Transaction, query: str, sender: UploadSender, **params: Any) -> UploadSender | None:
        return _first(tx.rows(self._sql[query], {**_which(sender.upload, sender.name), **params}))


def _which(upload: str, sender: str) -> dict[str, Any]:
    return {"upload": upload, "sender": sender}


def _columns(columns: Sequence[str] | None) -> str | None:
    return None if columns is None else json.dumps(list(columns))


def _first(rows: Sequence[Row]) -> UploadSender | None:
    return UploadSender.from_row(rows[0]) if rows else None
