"""The tables `actor`, `actor_instance` and `actor_wait`, and the context that every part of the actors is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.actors.instance import Instance, Phase, inbox_of
from towpath.core.clock import to_datetime
from towpath.core.events import Events
from towpath.db import Database, Queries, Transaction
from towpath.db.database import storable
from towpath.db.event_log import EventLog
from towpath.db.processes import Process, ProcessStore
from towpath.queue.held_messages import HeldMessages
from towpath.queue.store import QueueContext
from towpath.settings import ActorSettings, Settings


@dataclass(frozen=True, slots=True)
class ActorContext:
    """What every part of the actors works with. Made once, by `Actors`."""

    database: Database
    settings: ActorSettings
    events: Events
    event_log: EventLog
    queue: QueueContext
    instances: InstanceStore
    held: HeldMessages
    processes: ProcessStore
    process: Callable[[], Process]
    all_settings: Settings  # for processes that are started from here


@dataclass(frozen=True, slots=True)
class KnownActor:
    """A class as its row has it: also of one whose code is not in this process."""

    name: str
    about: str
    shape: dict[str, Any]
    is_enabled: bool
    seen_at: datetime


class InstanceStore:
    """Reads and moves instances inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.actors", "instances", database.dialect)

    # Classes

    def register_actor(self, tx: Transaction, name: str, about: str, shape: dict[str, Any]) -> None:
        tx.run(
            self._sql["register_actor"], {"name": name, "about": storable(about), "shape": storable(json.dumps(shape))}
        )

    def actors(self, tx: Transaction) -> list[KnownActor]:
        return [
            KnownActor(name, about, json.loads(shape), bool(is_enabled), to_datetime(seen_at))
            for name, about, shape, is_enabled, seen_at in tx.rows(self._sql["list_actors"], {})
        ]

    def disabled(self, tx: Transaction) -> frozenset[str]:
        return frozenset(row[0] for row in tx.rows(self._sql["disabled_actors"], {}))

    def enable(self, tx: Transaction, name: str, is_enabled: bool) -> bool:
        """Whether that was a change."""
        return bool(tx.rows(self._sql["enable_actor"], {"name": name, "is_enabled": int(is_enabled)}))

    # Instances

    def register(self, tx: Transaction, actor: str, instance: str) -> None:
        params = {"inbox": inbox_of(actor, instance), "actor": actor, "instance": instance}
        tx.run(self._sql["register_instance"], params)

    def read(self, tx: Transaction, inbox: str) -> Instance | None:
        rows = tx.rows(self._sql["read_instance"], {"inbox": inbox})
        return Instance.from_row(rows[0]) if rows else None

    def page(
        self, tx: Transaction, *, limit: int, actor: str | None = None, phase: Phase | None = None, after: str = ""
    ) -> list[Instance]:
        """In the order of their names; `after` is the inbox of the last one of the page before."""
        params = {"actor": actor, "phase": phase, "after": after, "limit": limit}
        return _instances(tx.rows(self._sql["list_instances"], params))

    def lock(self, tx: Transaction, inboxes: Collection[str]) -> dict[str, Instance]:
        """Some of them, which nobody else changes until the transaction ends."""
        rows = tx.rows(self._sql["lock_instances"], {"inboxes": _json(inboxes)})
        return {found.inbox: found for found in _instances(rows)}

    def lock_now(self, tx: Transaction, inboxes: Collection[str]) -> tuple[dict[str, Instance], int | None]:
        """As `lock`, and what time it is, if there are any: asking for it alone would be a round trip more."""
        rows = tx.rows(self._sql["lock_instances_now"], {"inboxes": _json(inboxes)})
        found = {instance.inbox: instance for instance in _instances(row[1:] for row in rows)}
        return found, rows[0][0] if rows else None

    def due(self, tx: Transaction, actors: Collection[str], limit: int) -> list[Instance]:
        return _instances(tx.rows(self._sql["due_instances"], {"actors": _json(actors), "limit": limit}))

    def until_due_us(self, tx: Transaction, actors: Collection[str]) -> int | None:
        """How long until the next one is due, by the database's time; below 0 when it has been."""
        left: int | None = tx.rows(self._sql["until_due"], {"actors": _json(actors)})[0][0]
        return left

    def owners(self, tx: Transaction) -> set[str]:
        return {row[0] for row in tx.rows(self._sql["owners"], {})}

    def owned_by(self, tx: Transaction, owner: str, actors: Collection[str], limit: int) -> list[Instance]:
        params = {"owner": owner, "actors": _json(actors), "limit": limit}
        return _instances(tx.rows(self._sql["owned_by"], params))

    def unheaded(self, tx: Transaction, actors: Collection[str], limit: int) -> list[Instance]:
        """Those whose head came to its end by another hand."""
        return _instances(tx.rows(self._sql["unheaded"], {"actors": _json(actors), "limit": limit}))

    def tied_children(self, tx: Transaction, parents: Collection[str]) -> list[Instance]:
        return _instances(tx.rows(self._sql["tied_children"], {"inboxes": _json(parents)}))

    def move(self, tx: Transaction, moves: Iterable[tuple[str | None, Instance]]) -> set[str]:
        """Set instances to what is given, if they have the head that is given; returns the inboxes of those."""
        rows = [_row(head_id, instance) for head_id, instance in moves]
        if not rows:
            return set()
        return {row[0] for row in tx.rows(self._sql["move_instances"], {"rows": json.dumps(rows)})}

    def go_on(self, tx: Transaction, steps: Iterable[tuple[str | None, Instance]]) -> None:
        """As `move`, for those of which nothing changes but the state that they are in."""
        rows = [(to.inbox, head_id, to.step, to.head_id) for head_id, to in steps]
        if rows:
            tx.run(self._sql["go_on_instances"], {"rows": json.dumps(rows)})

    def ask_abort(self, tx: Transaction, inbox: str, reason: str) -> bool:
        """Let a running instance fail when its code returns; whether it runs."""
        return bool(tx.rows(self._sql["ask_abort"], {"inbox": inbox, "reason": storable(reason)}))

    def aborted(self, tx: Transaction, owner: str) -> set[str]:
        """The inboxes of what one process has and what is to fail."""
        return {row[0] for row in tx.rows(self._sql["aborted_of"], {"owner": owner})}

    # Waiting

    def wait_for(self, tx: Transaction, waits: Iterable[tuple[str, str, bool]]) -> None:
        """Of each: inbox, question, and whether it is answered already."""
        rows = [(inbox, question, int(is_answered)) for inbox, question, is_answered in waits]
        if rows:
            tx.insert_many("actor_wait", ("inbox", "question_id", "is_answered"), rows)

    def forget_waits(self, tx: Transaction, inboxes: Collection[str]) -> None:
        if inboxes:
            tx.run(self._sql["forget_waits"], {"inboxes": _json(inboxes)})

    def waiting_for(self, tx: Transaction, questions: Collection[str]) -> list[str]:
        return [row[0] for row in tx.rows(self._sql["waiting_for"], {"questions": _json(questions)})]

    def note_answers(self, tx: Transaction, questions: Collection[str]) -> None:
        tx.run(self._sql["note_answers"], {"questions": _json(questions)})

    def satisfied(self, tx: Transaction, inboxes: Collection[str]) -> set[str]:
        """Which of these have as many answers as they need."""
        return {row[0] for row in tx.rows(self._sql["satisfied"], {"inboxes": _json(inboxes)})}

    def wake(self, tx: Transaction, inboxes: Collection[str]) -> None:
        if inboxes:
            tx.run(self._sql["wake_waiting"], {"inboxes": _json(inboxes)})

    def wake_early(self, tx: Transaction, inbox: str) -> bool:
        """Let one that sleeps run now; whether it sleeps."""
        return bool(tx.rows(self._sql["wake_sleeping"], {"inbox": inbox}))

    def open_questions(self, tx: Transaction, limit: int) -> list[str]:
        """Questions that somebody waits for and that have come to their end without a word."""
        return [row[0] for row in tx.rows(self._sql["open_questions"], {"limit": limit})]


def _instances(rows: Iterable[tuple[Any, ...]]) -> list[Instance]:
    return [Instance.from_row(row) for row in rows]


def _row(head_id: str | None, to: Instance) -> list[Any]:
    return [
        to.inbox,
        head_id,
        to.phase,
        to.step,
        to.head_id,
        to.last_id,
        to.run_id,
        to.owner,
        to.due_us,
        to.needs,
        None if to.reason is None else storable(to.reason),
        to.parent,
        int(to.is_tied),
        to.restarts,
    ]


def _json(texts: Collection[str]) -> str:
    return json.dumps(sorted(texts))
