"""One complaint as its row has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from towpath.catalog.complaint_state import ComplaintState, Outcome
from towpath.clock import to_datetime
from towpath.db.database import Row


class Origin(NamedTuple):
    """The record that a document was made from."""

    topic: str
    topic_id: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class NewComplaint:
    """What a reader says about a document: in which index, table or output, and which one."""

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
    origin: Origin | None
    taken_by: str | None
    taken_us: int | None
    outcome: Outcome | None
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
            None if topic is None else Origin(topic, topic_id, partition, position),
            taken_by,
            taken_us,
            None if outcome is None else Outcome(outcome),
            *settled,
        )
