"""The table `complaint`."""

from __future__ import annotations

from typing import Any

from towpath.catalog.complaint import Complaint, NewComplaint, Origin
from towpath.catalog.complaint_state import MOVES, OPEN, SETTLING, ComplaintMove, ComplaintState
from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.errors import IllegalComplaintMove, UnknownComplaint


class ComplaintStore:
    """Reads and moves complaints inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.catalog", "complaints", database.dialect)

    def add(self, tx: Transaction, new: NewComplaint, made_by: str | None, origin: Origin | None) -> Complaint:
        said = {
            "target": storable(new.target),
            "document": storable(new.document),
            "said": storable(new.said),
            "contact": None if new.contact is None else storable(new.contact),
            "flow": None if new.flow is None else storable(new.flow),
            "made_by": None if made_by is None else storable(made_by),
        }
        return Complaint.from_row(tx.rows(self._sql["add_complaint"], {**said, **_origin(origin)})[0])

    def new(self, tx: Transaction, most: int) -> int:
        """How many nobody has looked at, as far as that matters."""
        return int(tx.rows(self._sql["count_new"], {"most": most})[0][0])

    def counts(self, tx: Transaction) -> dict[ComplaintState, int]:
        """How many there are in each state."""
        found: dict[str, int] = dict(tx.rows(self._sql["count_by_state"], {}))
        return {state: found.get(state.value, 0) for state in ComplaintState}

    def read(self, tx: Transaction, number: int) -> Complaint:
        """One of them; raises `UnknownComplaint`."""
        rows = tx.rows(self._sql["read_complaint"], {"number": number})
        if not rows:
            raise UnknownComplaint(number)
        return Complaint.from_row(rows[0])

    def page(
        self, tx: Transaction, *, limit: int, before: int | None, state: ComplaintState | None = None
    ) -> list[Complaint]:
        """The newest first; `before` is the number of the last one of the page before."""
        query = "list_complaints" if state is None else "list_complaints_in_state"
        which = {} if state is None else {"state": state}
        return self._all(tx, query, limit=limit, before=before, **which)

    def about(self, tx: Transaction, target: str, document: str, limit: int) -> list[Complaint]:
        """Those about one document, the newest first."""
        return self._all(tx, "list_complaints_about", target=target, document=document, limit=limit, before=None)

    def take(self, tx: Transaction, number: int, who: str) -> Complaint:
        return self._move(tx, "take_complaint", ComplaintMove.TAKE, number, who=storable(who))

    def link(self, tx: Transaction, number: int, origin: Origin) -> Complaint:
        """It is about that record; its state stays."""
        rows = tx.rows(self._sql["link_complaint"], {"number": number, **_origin(origin)})
        if not rows:
            raise IllegalComplaintMove(number, self.read(tx, number).state, "being linked", OPEN)
        return Complaint.from_row(rows[0])

    def settle(
        self,
        tx: Transaction,
        number: int,
        move: ComplaintMove,
        *,
        who: str,
        why: str,
        reply: str | None,
        rule: int | None = None,
    ) -> Complaint:
        said = {"who": storable(who), "why": storable(why), "reply": None if reply is None else storable(reply)}
        return self._move(tx, "settle_complaint", move, number, **said, outcome=SETTLING[move], rule=rule)

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_complaints"], {"older_than": older_than_us, "limit": limit})

    def _move(self, tx: Transaction, query: str, move: ComplaintMove, number: int, **params: Any) -> Complaint:
        rows = tx.rows(self._sql[query], {"number": number, **params})
        if not rows:
            raise IllegalComplaintMove(number, self.read(tx, number).state, f"being {move}", MOVES[move].sources)
        return Complaint.from_row(rows[0])

    def _all(self, tx: Transaction, query: str, **params: Any) -> list[Complaint]:
        return [Complaint.from_row(row) for row in tx.rows(self._sql[query], params)]


def _origin(origin: Origin | None) -> dict[str, Any]:
    if origin is None:
        return dict.fromkeys(("topic", "topic_id", "partition", "position"))
    return {
        "topic": origin.topic,
        "topic_id": origin.topic_id,
        "partition": origin.partition,
        "position": origin.offset,
    }
