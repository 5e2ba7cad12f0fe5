"""The `upload_sender` table: how far each sender of an upload is, and what is under way to the log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from towpath.boundary.sender import NewSender, Plan, Sender, offsets_to_json
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import UnknownSender


class SenderStore:
    """Reads and changes senders inside a transaction that the caller opens.

    What changes one returns None when it was not as it had to be: the caller looks at it again, and says why.
    """

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.boundary", "senders", database.dialect)

    def add(self, tx: Transaction, upload: str, new: NewSender, place: int) -> None:
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

    def read(self, tx: Transaction, upload: str, sender: str) -> Sender:
        """One of them; raises `UnknownSender`."""
        rows = tx.rows(self._sql["read_sender"], _which(upload, sender))
        if not rows:
            raise UnknownSender(upload, sender)
        return Sender.from_row(rows[0])

    def of_upload(self, tx: Transaction, upload: str) -> list[Sender]:
        """All of an upload, in the order in which they were named."""
        return [Sender.from_row(row) for row in tx.rows(self._sql["list_senders"], {"upload": upload})]

    def next_session(
        self, tx: Transaction, upload: str, sender: str, columns: Sequence[str] | None = None
    ) -> Sender | None:
        """A new connection, which alone counts from now on; None when nothing is taken of it any more."""
        return _first(tx.rows(self._sql["next_session"], {**_which(upload, sender), "columns": _columns(columns)}))

    def plan(self, tx: Transaction, sender: Sender, session: int, plan: Plan) -> Sender | None:
        """Write down what is about to go into the log."""
        params = {"session": session, "position": sender.position, "plan": plan.to_json()}
        return self._change(tx, "plan_chunk", sender, **params)

    def settle(self, tx: Transaction, sender: Sender, plan: Plan) -> Sender | None:
        """The plan is what is."""
        numbers = {name: value for name, value in asdict(plan).items() if name not in ("id", "caught")}
        return self._change(tx, "settle_plan", sender, plan=plan.to_json(), **numbers)

    def discard(self, tx: Transaction, sender: Sender, plan: Plan) -> Sender | None:
        """The plan will never be."""
        return self._change(tx, "discard_plan", sender, plan=plan.to_json())

    def finish(self, tx: Transaction, sender: Sender, session: int, ends: Mapping[int, int]) -> Sender | None:
        """That was all; `ends` is where each partition of its topic ends."""
        params = {"position": sender.position, "crc32": sender.crc32, "ends": offsets_to_json(ends)}
        return self._change(tx, "finish_sender", sender, session=session, **params)

    def receiving(self, tx: Transaction, upload: str) -> int:
        """How many of an upload have not finished."""
        return int(tx.rows(self._sql["count_receiving"], {"upload": upload})[0][0])

    def taken(self, tx: Transaction, upload: str) -> tuple[int, int]:
        """Bytes and lines of all senders of an upload."""
        bytes, lines = tx.rows(self._sql["count_taken"], {"upload": upload})[0]
        return int(bytes), int(lines)

    def unsettled(self, tx: Transaction, before_us: int, limit: int) -> list[Sender]:
        """Whose plan nobody has come back for since that time."""
        return [
            Sender.from_row(row) for row in tx.rows(self._sql["list_unsettled"], {"before": before_us, "limit": limit})
        ]

    def _change(self, tx: Transaction, query: str, sender: Sender, **params: Any) -> Sender | None:
        return _first(tx.rows(self._sql[query], {**_which(sender.upload, sender.name), **params}))


def _which(upload: str, sender: str) -> dict[str, Any]:
    return {"upload": upload, "sender": sender}


def _columns(columns: Sequence[str] | None) -> str | None:
    return None if columns is None else json.dumps(list(columns))


def _first(rows: Sequence[Row]) -> Sender | None:
    return Sender.from_row(rows[0]) if rows else None
