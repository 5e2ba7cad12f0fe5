"""The books of a queue, for tests: does each message have its one end, and is all that was done twice explained?

`read_ledger` gives the complete tables as values; `problems` compares them with what processes say they have done, and
gives sentences about what is wrong. Made for queues in which all is at rest and nothing was moved by hand, deleted, or
stolen from a dead owner by a single-shot inbox.

What a process has done stands in a `Journal`, a file that outlives it, independent of the database on purpose. Any
number of processes may write to one journal: each entry is one line, written by one call at the end of the file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries
from towpath.db.database import Row
from towpath.db.open import targets, verify
from towpath.queue.inbox import REPLY
from towpath.queue.model import Message
from towpath.queue.states import TERMINAL, MessageState

Entry = dict[str, Any]


def read_ledger(database: Database) -> QueueLedger:
    """Read all the tables, each in one view."""
    sql = Queries("towpath.testing", "ledger", database.dialect)
    with database.read() as tx:
        messages = tuple(map(Message.from_row, tx.rows(sql["all_messages"], {})))
        events = tuple(map(_event, tx.rows(sql["all_events"], {})))
    return QueueLedger(messages, events, read_processes(database))


def read_processes(database: Database) -> tuple[KnownProcess, ...]:
    """All processes that have a row."""
    sql = Queries("towpath.testing", "ledger", database.dialect)
    with database.beats.read() as tx:
        return tuple(map(_process, tx.rows(sql["all_processes"], {})))


def verify_schema(database: Database) -> None:
    """Raise `SchemaDiffers` unless all tables are what the migrations make."""
    for target in targets(database):
        verify(target)


def problems(ledger: QueueLedger, sent: Iterable[str], handled: Mapping[str, int], killed: Iterable[int]) -> list[str]:
    """All that does not add up; a test wants none.

    `sent` are the ids that senders know to be written, `handled` how often each id was handled by the handlers' own
    record, and `killed` the numbers of the processes that were killed, or stopped for longer than a lease.
    """
    return [
        *_lost_or_invented(ledger, sent, handled),
        *_not_ended(ledger),
        *_claims(ledger, handled),
        *_answers(ledger),
        *_deaths(ledger, set(killed)),
    ]


def handled_again(handled: Mapping[str, int]) -> dict[str, int]:
    """The messages that were handled more than once, and how often."""
    return {message_id: times for message_id, times in handled.items() if times > 1}


@dataclass(frozen=True, slots=True)
class QueueLedger:
    """Every row of every table of the queue."""

    messages: tuple[Message, ...]
    events: tuple[Event, ...]
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

    def of_kind(self, kind: EventKind) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.kind == kind)

    def count(self, kind: EventKind) -> Counter[str]:
        """How many events of a kind each subject has."""
        return Counter(event.subject for event in self.of_kind(kind))

    def states(self) -> Counter[MessageState]:
        return Counter(message.state for message in self.messages)


@dataclass(frozen=True, slots=True)
class KnownProcess:
    """One row of the process table."""

    id: str
    name: str
    pid: int
    state: str
    is_settled: bool


class Journal:
    """Appends entries. They survive the death of the writer at any moment, and with `durable` that of the machine."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._durable = durable

    def write(self, **entry: Any) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        if self._durable:
            os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def entries(path: Path) -> list[Entry]:
    """Everything written so far; a last line that is still being written is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _event(row: Row) -> Event:
    kind, subject, who, why, data = row
    return Event(EventKind(kind), subject, who, why, json.loads(data))


def _process(row: Row) -> KnownProcess:
    id_, name, pid, state, is_settled = row
    return KnownProcess(id_, name, pid, state, bool(is_settled))


def _lost_or_invented(ledger: QueueLedger, sent: Iterable[str], handled: Mapping[str, int]) -> Iterator[str]:
    rows = Counter(message.id for message in ledger.messages)
    yield from (f"message {id_} has {times} rows" for id_, times in rows.items() if times > 1)
    yield from (f"message {id_} was sent and is lost" for id_ in sent if id_ not in rows)
    yield from (f"message {id_} was handled and is in no table" for id_ in handled if id_ not in rows)


def _not_ended(ledger: QueueLedger) -> Iterator[str]:
    for message in ledger.messages:
        if message.state not in TERMINAL:
            yield f"message {message.id} ({message.function}) is still {message.state}, owner {message.owner}"


def _claims(ledger: QueueLedger, handled: Mapping[str, int]) -> Iterator[str]:
    """Each claim ended in one way: a handler's end, a give-back, or the death of its owner with an event."""
    freed, given_up = ledger.count(EventKind.CLAIM_FREED), ledger.count(EventKind.MESSAGE_GIVEN_UP)
    for message in ledger.asked:
        times, freed_times = handled.get(message.id, 0), freed[message.id]
        ended_by_handler = message.state in (MessageState.OK, MessageState.ERR) and not given_up[message.id]
        ends = freed_times + given_up[message.id] + ended_by_handler
        if message.failures != ends:
            yield f"message {message.id} was claimed {message.failures} times, and {ends} ends of claims are recorded"
        if ended_by_handler and times == 0:
            yield f"message {message.id} is {message.state} and nobody handled it"
        if times > ends:
            yield f"message {message.id} was handled {times} times, but only {ends} claims account for that"


def _answers(ledger: QueueLedger) -> Iterator[str]:
    answers = Counter(message.related_id for message in ledger.answers)
    for message in ledger.asked:
        expected = _answers_due(message)
        if answers[message.id] != expected:
            yield f"message {message.id} ({message.state}) has {answers[message.id]} answers, not {expected}"
    known = {message.id for message in ledger.asked}
    yield from (f"an answer to {id_}, which is in no table" for id_ in answers if id_ not in known)


def _answers_due(message: Message) -> int:
    return int(message.expects_answer and message.state in (MessageState.OK, MessageState.ERR))


def _deaths(ledger: QueueLedger, killed: set[int]) -> Iterator[str]:
    """Each death is in the table once and in the log once, was really a kill, and nobody else lost a claim."""
    recorded = ledger.count(EventKind.PROCESS_DIED)
    dead = {process.id: process for process in ledger.dead}
    for process in dead.values():
        if recorded[process.id] != 1:
            yield f"the death of {process.id} is recorded {recorded[process.id]} times"
        if not process.is_settled:
            yield f"the death of {process.id} is not settled"
        if process.pid not in killed:
            yield f"process {process.id} (pid {process.pid}) was declared dead, but nobody killed it"
    yield from (f"{id_} has a death on record, but is not dead" for id_ in recorded if id_ not in dead)
    yield from (f"process {p.id} (pid {p.pid}) is still {p.state}" for p in ledger.processes if p.state == "alive")
    for kind in (EventKind.CLAIM_FREED, EventKind.MESSAGE_GIVEN_UP):
        for event in ledger.of_kind(kind):
            if event.data["owner"] not in dead:
                yield f"a claim of {event.data['owner']} on {event.subject} was freed, but its owner did not die"
