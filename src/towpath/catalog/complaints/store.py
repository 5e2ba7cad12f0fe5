"""Complaints: their states and moves, the row of one, and the table `complaint`.

docs/reference/complaint-states.md is held equal to the states here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.errors import IllegalComplaintMove, UnknownComplaint


class ComplaintState(StrEnum):
    """How far a complaint is."""

    NEW = "new"  # nobody has looked at it
    TAKEN = "taken"  # somebody is at it
    SETTLED = "settled"  # something was done about it, or it was dismissed


class ComplaintMove(StrEnum):
    """What can happen to a complaint. The value is the label of its arrow in a chart."""

    TAKE = "taken on"
    DISMISS = "dismissed"
    BLOCK = "blocked"  # a block rule keeps records of its key out
    RERUN = "re-run"  # its record was sent to its topic again


class ComplaintOutcome(StrEnum):
    """How a complaint was settled."""

    DISMISSED = "dismissed"  # nothing is to be done
    BLOCKED = "blocked"  # a block rule was made
    RERUN = "re-run"  # the record was sent again


@dataclass(frozen=True, slots=True)
class ComplaintArrow:
    """One move: from which states, to which."""

    sources: tuple[ComplaintState, ...]
    target: ComplaintState


_NEW, _TAKEN, _SETTLED = ComplaintState
OPEN = (_NEW, _TAKEN)

MOVES: dict[ComplaintMove, ComplaintArrow] = {
    ComplaintMove.TAKE: ComplaintArrow(OPEN, _TAKEN),
    ComplaintMove.DISMISS: ComplaintArrow(OPEN, _SETTLED),
    ComplaintMove.BLOCK: ComplaintArrow(OPEN, _SETTLED),
    ComplaintMove.RERUN: ComplaintArrow(OPEN, _SETTLED),
}
SETTLING: dict[ComplaintMove, ComplaintOutcome] = {
    ComplaintMove.DISMISS: ComplaintOutcome.DISMISSED,
    ComplaintMove.BLOCK: ComplaintOutcome.BLOCKED,
    ComplaintMove.RERUN: ComplaintOutcome.RERUN,
}


class DocumentOrigin(NamedTuple):
    """The record that a document was made from."""

    topic: str
    topic_id: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class NewComplaint:
    """A complaint to be made: what a reader says about which document of which index, table or output."""

    target: str
    document: str
    said: str
    contact: str | None = None
    flow: str | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """What was said about a document, and what was done about it."""

    number: int
    state: ComplaintState
    about: NewComplaint
    made_by: str | None  # who of the staff has written it down; None: a reader has sent it
    made_us: int
    origin: DocumentOrigin | None
    taken_by: str | None
    taken_us: int | None
    outcome: ComplaintOutcome | None
    rule: int | None  # the block rule that was made
    settled_by: str | None
    settled_us: int | None
    why: str | None
    reply: str | None

    @property
    def seq(self) -> int:
        """By what pages are cut."""
        return self.number

    @property
    def made_at(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def taken_at(self) -> datetime | None:
        return None if self.taken_us is None else to_datetime(self.taken_us)

    @property
    def settled_at(self) -> datetime | None:
        return None if self.settled_us is None else to_datetime(self.settled_us)

    @classmethod
    def from_row(cls, row: Row) -> Complaint:
        number, state, target, document, said, contact, flow, made_by, made_us, *rest = row
        topic, topic_id, partition, position, taken_by, taken_us, outcome, *settled = rest
        return cls(
            number,
            ComplaintState(state),
            NewComplaint(target, document, said, contact, flow),
            made_by,
            made_us,
            None if topic is None else DocumentOrigin(topic, topic_id, partition, position),
            taken_by,
            taken_us,
            None if outcome is None else ComplaintOutcome(outcome),
            *settled,
        )


class ComplaintStore:
    """Reads and moves complaints inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.catalog.complaints", "complaints", database.dialect)

    def add(self, tx: Transaction, new: NewComplaint, made_by: str | None, origin: DocumentOrigin | None) -> Complaint:
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
        """How many complaints nobody has looked at, counted up to `most`."""
        return int(tx.rows(self._sql["count_new"], {"most": most})[0][0])

    def counts(self, tx: Transaction) -> dict[ComplaintState, int]:
        """How many there are in each state."""
        found: dict[str, int] = dict(tx.rows(self._sql["count_by_state"], {}))
        return {state: found.get(state.value, 0) for state in ComplaintState}

    def read(self, tx: Transaction, number: int) -> Complaint:
        """A complaint by its number; raises `UnknownComplaint`."""
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
        """The complaints about one document, the newest first."""
        return self._all(tx, "list_complaints_about", target=target, document=document, limit=limit, before=None)

    def take(self, tx: Transaction, number: int, who: str) -> Complaint:
        return self._move(tx, "take_complaint", ComplaintMove.TAKE, number, who=storable(who))

    def link(self, tx: Transaction, number: int, origin: DocumentOrigin) -> Complaint:
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


def _origin(origin: DocumentOrigin | None) -> dict[str, Any]:
    if origin is None:
        return dict.fromkeys(("topic", "topic_id", "partition", "position"))
    return {
        "topic": origin.topic,
        "topic_id": origin.topic_id,
        "partition": origin.partition,
        "position": origin.offset,
    }
