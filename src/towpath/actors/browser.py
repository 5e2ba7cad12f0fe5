"""What people see of actors: counts, one instance with all that is around it, its runs, and the progress of processes.

A run is read from the instance's messages: it begins with a start, and each state names the message before it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from towpath.actors.actor import End, Failed
from towpath.actors.definition import Definition
from towpath.actors.engine.plan import TIMED_OUT, WAITS
from towpath.actors.instance import Instance, Phase
from towpath.actors.instance_store import ActorContext
from towpath.core.clock import MICROS, to_datetime
from towpath.db import Database, Queries
from towpath.db.event_log import StoredEvent
from towpath.errors import NotFailed
from towpath.queue.model import Message
from towpath.queue.states import MessageState

MOST_SHOWN = 50
MOST_EVENTS = 10
MOST_IN_PROGRESS = 500


class ActorBrowser:
    """Only reads."""

    def __init__(self, parts: ActorContext) -> None:
        self._parts = parts
        self._sql = Queries("towpath.actors", "browser", parts.database.dialect, fragments="instances")

    def counts(self) -> dict[str, dict[Phase, int]]:
        """How many instances each actor has in each phase."""
        found: dict[str, dict[Phase, int]] = defaultdict(dict)
        with self._parts.database.glance() as tx:
            for actor, phase, count in tx.rows(self._sql["count_phases"], {}):
                found[actor][Phase(phase)] = count
        return dict(found)

    def questions(self, instance: Instance, limit: int = MOST_SHOWN) -> list[OpenRequest]:
        """What an instance waits for, the unanswered first."""
        with self._parts.database.glance() as tx:
            rows = tx.rows(self._sql["waits"], {"inbox": instance.inbox, "limit": limit})
        return [
            OpenRequest(str(id), bool(is_answered), inbox, None if state is None else MessageState(state))
            for id, is_answered, inbox, state in rows
        ]

    def children(self, instance: Instance, limit: int = MOST_SHOWN) -> list[Instance]:
        """Instances whose last run this one began, those that moved last first."""
        with self._parts.database.glance() as tx:
            rows = tx.rows(self._sql["children"], {"parent": instance.inbox, "limit": limit})
        return [Instance.from_row(row) for row in rows]

    def head(self, instance: Instance) -> Message | None:
        """The message that is its present state; of one at rest, the last one. None: it never ran, or it is deleted."""
        return self._message(instance.head_id or instance.last_id)

    def failed_state(self, instance: Instance) -> Message:
        """The message of the state in which the last run failed. One that waited in vain gives the one that asked.

        Raises `NotFailed`.
        """
        if instance.phase is not Phase.FAILED:
            raise NotFailed(f"{instance.name} is {instance.phase}; only what has failed is started again where it was")
        found = self._message(instance.last_id)
        if found is not None and found.function == Failed.__name__:
            found = self._message(found.related_id)
        if found is not None and _waited_in_vain(found):
            found = self._message(found.related_id)
        if found is None:
            raise NotFailed(f"the state in which {instance.name} failed is not in the queue any more; say --state")
        return found

    def view(self, inbox: str, last: int) -> InstanceView | None:
        """An instance with the last messages of its history; None when there is no such instance."""
        parts = self._parts
        with parts.database.glance() as tx:
            instance = parts.instances.read(tx, inbox)
        if instance is None:
            return None
        with parts.database.read() as tx:
            events = parts.event_log.page(tx, limit=MOST_EVENTS, subject=instance.name)
            history = parts.queue.messages.page(tx, limit=last, inbox=inbox) if last else []
        failed = None
        with suppress(NotFailed):  # also when its messages are past their retention time
            failed = self.failed_state(instance)
        head, questions, children = self.head(instance), self.questions(instance), self.children(instance)
        return InstanceView(instance, head, failed, questions, children, history, events)

    def is_busy(self, definitions: Collection[Definition], within_s: float) -> bool:
        """Whether these have anything to do in the next seconds. Who waits or watches for others is not busy."""
        watching = [(each.name, *watch) for each in definitions for watch in each.actor.watches().items()]
        params = {
            "actors": json.dumps(sorted(each.name for each in definitions)),
            "watching": json.dumps(watching),
            "within_us": int(within_s * MICROS),
        }
        with self._parts.database.glance() as tx:
            return bool(tx.rows(self._sql["is_busy"], params))

    def _message(self, message_id: str | None) -> Message | None:
        if message_id is None:
            return None
        with self._parts.database.glance() as tx:
            return self._parts.held.read(tx, [message_id]).get(message_id)


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A message whose answer an instance waits for. Without an inbox, it is gone."""

    id: str
    is_answered: bool
    inbox: str | None
    state: MessageState | None


@dataclass(frozen=True, slots=True)
class InstanceView:
    """An instance with what is around it."""

    instance: Instance
    head: Message | None  # its present state; of one at rest, the last one
    failed: Message | None  # the state in which it failed
    questions: list[OpenRequest]
    children: list[Instance]
    history: list[Message]  # the newest first
    events: list[StoredEvent]

    @property
    def untaken(self) -> list[Message]:
        """Starts that no process has looked at yet."""
        return [each for each in self.history if each.related_id is None and each.state is MessageState.NEW]


def progress(database: Database, limit: int = MOST_IN_PROGRESS) -> list[SpawnedProgress]:
    """Of all that work on something now."""
    sql = Queries("towpath.actors", "progress", database.dialect)
    with database.glance() as tx:
        rows = tx.rows(sql["progress"], {"limit": limit})
    return [
        SpawnedProgress(spawner, str(message_id), percent or 0.0, stage or "", told and to_datetime(told), waiting)
        for spawner, message_id, percent, stage, told, waiting in rows
    ]


class SpawnedProgress(NamedTuple):
    """A message that a spawned process works on."""

    spawner: str  # the inbox of the instance that has spawned it
    message_id: str
    percent: float
    stage: str
    told_at: datetime | None
    waiting: str | None  # the inbox of the instance that waits for it


def runs_of(history: Iterable[Message]) -> list[ActorRun]:
    """The runs whose start is among these messages, newest first as they are."""
    runs: dict[str, ActorRun] = {}
    run_of: dict[str, str] = {}
    for message in reversed(list(history)):
        run_id = message.id if message.related_id is None else run_of.get(message.related_id)
        if run_id is None:
            continue  # its start is older than what was read
        run_of[message.id] = run_id
        known = runs.get(run_id)
        runs[run_id] = (
            ActorRun(message, message, 0) if known is None else ActorRun(known.start, message, known.states + 1)
        )
    return list(runs.values())[::-1]


@dataclass(frozen=True, slots=True)
class ActorRun:
    """From a start to the last message that is known."""

    start: Message
    last: Message
    states: int  # that it went through: the start only lets it in

    @property
    def id(self) -> str:
        return self.start.id

    @property
    def outcome(self) -> RunOutcome:
        if self.start is self.last and self.start.state is MessageState.NEW:
            return RunOutcome.SENT
        if self.start is self.last and self.start.state in (MessageState.ERR, MessageState.DEAD):
            return RunOutcome.REFUSED
        if self.last.state is MessageState.OK and self.last.function in (End.__name__, Failed.__name__):
            return RunOutcome.ENDED if self.last.function == End.__name__ else RunOutcome.FAILED
        if self.last.state in (MessageState.ERR, MessageState.DEAD):
            return RunOutcome.FAILED
        return RunOutcome.RUNNING

    @property
    def ended_at(self) -> datetime | None:
        return None if self.outcome in (RunOutcome.SENT, RunOutcome.RUNNING) else self.last.updated_at


class RunOutcome(StrEnum):
    """What came of a run."""

    SENT = "sent"  # its start waits for a process that takes it
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    REFUSED = "refused"  # the start was not let in


def _waited_in_vain(message: Message) -> bool:
    """Whether it never ran, since its answers did not come: alone it would find none."""
    is_timed_out = message.state is MessageState.OK and message.reason == TIMED_OUT
    return WAITS in message.headers and (is_timed_out or message.attempts == 0)
