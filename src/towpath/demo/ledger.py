"""What came of the demo: read from the database, and held against what the workers noted by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from towpath.demo.scene import CLIENT, INBOX, WORKERS, journal_of
from towpath.events import EventKind
from towpath.queue import Message, MessageState
from towpath.queue.outbox import reply_inbox
from towpath.runtime import Runtime

PAGE = 1_000


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """One worker: how many requests it finished by the database, and how many it worked on by its own journal."""

    name: str
    answered: int
    worked_on: int
    died: bool
    noticed_after_s: float | None  # how long after its last beat its death was noticed


@dataclass(frozen=True, slots=True)
class Ledger:
    """The whole outcome."""

    requests: int
    states: dict[str, int]
    answers_min: int
    answers_max: int
    right_answers: int
    workers: tuple[WorkerLine, ...]
    claims_freed: int
    worked_on_twice: int
    never_worked_on: int

    @property
    def is_as_promised(self) -> bool:
        """Every request was answered, once, rightly, and somebody really died on the way."""
        return (
            self.states[MessageState.OK] == self.requests == sum(self.states.values()) == self.right_answers
            and self.answers_min == self.answers_max == 1
            and self.never_worked_on == 0
            and 0 < self.worked_on_twice <= self.claims_freed
            and [worker.died for worker in self.workers].count(True) == 1
        )


def read_ledger(runtime: Runtime, directory: Path, ids: Sequence[str], right_answers: int) -> Ledger:
    requests = list(_all_messages(runtime, INBOX))
    answers = Counter(message.related_id for message in _all_messages(runtime, reply_inbox(CLIENT)))
    per_request = [answers[message_id] for message_id in ids]
    states = Counter(message.state for message in requests)
    journals = {name: journal_of(directory, name).read_text().split() for name in WORKERS}
    worked_on = Counter(message_id for journal in journals.values() for message_id in journal)
    return Ledger(
        requests=len(ids),
        states={state: states[state] for state in MessageState},
        answers_min=min(per_request),
        answers_max=max(per_request),
        right_answers=right_answers,
        workers=tuple(_worker_line(runtime, name, requests, journals[name]) for name in WORKERS),
        claims_freed=_count_events(runtime, EventKind.CLAIM_FREED),
        worked_on_twice=sum(count > 1 for count in worked_on.values()),
        never_worked_on=sum(worked_on[message_id] == 0 for message_id in ids),
    )


def _worker_line(runtime: Runtime, name: str, requests: Sequence[Message], journal: Sequence[str]) -> WorkerLine:
    with runtime.database.read() as tx:
        deaths = runtime.event_log.page(tx, limit=PAGE, kind=EventKind.PROCESS_DIED)
    death = next((event for event in deaths if event.data["name"] == name), None)
    return WorkerLine(
        name=name,
        # A process's id is its name and something that is new at each start.
        answered=sum((message.owner or "").rpartition("-")[0] == name for message in requests),
        worked_on=len(journal),
        died=death is not None,
        noticed_after_s=None if death is None else _seconds_since(death.at.isoformat(), death.data["last_beat"]),
    )


def _seconds_since(later: str, earlier: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _count_events(runtime: Runtime, kind: EventKind) -> int:
    with runtime.database.read() as tx:
        return len(runtime.event_log.page(tx, limit=PAGE, kind=kind))


def _all_messages(runtime: Runtime, inbox: str) -> Iterator[Message]:
    browser = runtime.queue.browser()
    before: int | None = None
    while page := browser.page(limit=PAGE, before=before, inbox=inbox):
        yield from page
        before = page[-1].seq
