"""The complete tables of a queue as values, for tests that compare everything with everything."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from towpath.db import Database, Queries
from towpath.db.database import Row
from towpath.db.migration_targets import targets
from towpath.db.migrations import verify
from towpath.events import EventKind
from towpath.queue.message import Message
from towpath.queue.replies import REPLY
from towpath.queue.state import MessageState


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One row of the event table."""

    kind: str
    subject: str
    who: str
    why: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownProcess:
    """One row of the process table."""

    id: str
    name: str
    pid: int
    state: str
    is_settled: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every row of every table of the queue."""

    messages: tuple[Message, ...]
    events: tuple[LoggedEvent, ...]
    processes: tuple[KnownProcess, ...]

    @property
    def asked(self) -> tuple[Message, ...]:
        """All messages but the answers."""
        return tuple(message for message in self.messages if message.function != REPLY)

    @property
    def answers(self) -> tuple[Message, ...]:
        return tuple(message for message in self.messages if message.function == REPLY)

    @property
    def dead(self) -> tuple[KnownProcess, ...]:
        return tuple(process for process in self.processes if process.state == "dead")

    def of_kind(self, kind: EventKind) -> tuple[LoggedEvent, ...]:
        return tuple(event for event in self.events if event.kind == kind)

    def count(self, kind: EventKind) -> Counter[str]:
        """How many events of a kind each subject has."""
        return Counter(event.subject for event in self.of_kind(kind))

    def states(self) -> Counter[MessageState]:
        return Counter(message.state for message in self.messages)


def read_ledger(database: Database) -> Ledger:
    """Read all the tables, each in one view."""
    sql = Queries("towpath.testing", "ledger", database.dialect)
    with database.read() as tx:
        messages = tuple(map(Message.from_row, tx.rows(sql["all_messages"], {})))
        events = tuple(map(_event, tx.rows(sql["all_events"], {})))
    return Ledger(messages, events, read_processes(database))


def read_processes(database: Database) -> tuple[KnownProcess, ...]:
    """Everybody who ever had a row."""
    sql = Queries("towpath.testing", "ledger", database.dialect)
    with database.beats.read() as tx:
        return tuple(map(_process, tx.rows(sql["all_processes"], {})))


def _event(row: Row) -> LoggedEvent:
    kind, subject, who, why, data = row
    return LoggedEvent(kind, subject, who, why, json.loads(data))


def _process(row: Row) -> KnownProcess:
    id_, name, pid, state, is_settled = row
    return KnownProcess(id_, name, pid, state, bool(is_settled))


def verify_schema(database: Database) -> None:
    """Raise `SchemaDiffers` unless all tables are what the migrations make."""
    for target in targets(database):
        verify(target)
