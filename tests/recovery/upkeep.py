"""Scenarios of those who look after the queue: caretaker, janitor, operator, migration."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

from tests.recovery.acts import ASKER, INBOX
from tests.recovery.scenario import Scenario, fill
from tests.recovery.stage import Stage

from towpath.core.crash import CrashPoint
from towpath.core.events import EventKind
from towpath.db import Query
from towpath.db.open import connect_database, pending, targets
from towpath.queue import MessageState

SCHEMAS = Query("schemas", "select 1 from pg_namespace where nspname = %(schema)s", uses_now=False)


@dataclass(frozen=True)
class Freeing(Scenario):
    """One process died with claims; another dies while it frees them; the third ends it all."""

    POLICIES: ClassVar[dict[str, str]] = {INBOX: "again", "fragile": "err", "once": "dead"}
    HELD: ClassVar[int] = 2
    PORTION: ClassVar[int] = 2

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        for inbox, policy in self.POLICIES.items():
            stage.runtime.queue.inbox(inbox, policy)
            fill(stage, "double", True, self.HELD, inbox)
        holder = stage.start("hold", inboxes=self.POLICIES, count=self.HELD)
        stage.wait_for("holding")
        stage.kill(holder)
        stage.look_at_what_is_left()
        assert {entry["id"] for entry in stage.journal("held")} == stage.left
        stage.crash("care", self.at(point), portion=self.PORTION)

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        expected = {INBOX: MessageState.OK, "fragile": MessageState.ERR, "once": MessageState.DEAD}
        assert [(message.inbox, message.state) for message in ledger.asked] == [
            (inbox, state) for inbox, state in expected.items() for _ in range(self.HELD)
        ]
        assert {event.subject for event in ledger.of_kind(EventKind.MESSAGE_GIVEN_UP)} == {
            message.id for message in ledger.asked if message.inbox != INBOX
        }
        assert len(stage.journal("died")) == self.HELD
        assert {process.pid for process in ledger.dead} == stage.killed
        assert len(ledger.dead) == 2


@dataclass(frozen=True)
class Reaping(Scenario):
    """Each message expires once, with one event that counts it."""

    COUNT: ClassVar[int] = 4
    PORTION: ClassVar[int] = 2

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        stage.runtime.queue.inbox(INBOX)
        box = stage.runtime.queue.outbox(ASKER)
        for number in range(self.COUNT):
            box.send(INBOX, "double", {"n": number}, ttl_s=5)
        stage.runtime.database.shift_clock(10)
        stage.crash("reap", self.at(point), portion=self.PORTION)

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        assert [message.state for message in ledger.messages] == [MessageState.DEAD] * self.COUNT
        expired = [id_ for event in ledger.of_kind(EventKind.MESSAGES_EXPIRED) for id_ in event.data["messages"]]
        assert sorted(expired) == sorted(message.id for message in ledger.messages)
        assert sum(event.data["count"] for event in ledger.of_kind(EventKind.MESSAGES_EXPIRED)) == self.COUNT
        assert not stage.handled


@dataclass(frozen=True)
class Cleaning(Scenario):
    """What is deleted is counted, and what is counted is deleted; nothing else goes."""

    RETENTION: ClassVar[dict[str, float]] = {"ok_s": 60, "dead_s": 60}
    PORTION: ClassVar[int] = 2

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        fill(stage, "double", False, 3)
        box = stage.runtime.queue.outbox(ASKER)
        for message in stage.runtime.queue.inbox(INBOX).eavesdrop(1):
            box.flag_dead(message.id, "a test")
        stage.run("recover")
        stage.runtime.database.shift_clock(600)
        fill(stage, "double", False, 2)
        stage.crash("clean", self.at(point), portion=self.PORTION, queue={"retention": self.RETENTION})
        assert self._cleaned(stage).total() + len(stage.ledger().messages) == 5

    def recover(self, stage: Stage) -> None:
        stage.run("clean", portion=self.PORTION, queue={"retention": self.RETENTION})

    def check(self, stage: Stage, point: CrashPoint) -> None:
        assert self._cleaned(stage) == {MessageState.OK: 2, MessageState.DEAD: 1}
        assert [message.state for message in stage.ledger().messages] == [MessageState.NEW] * 2

    def _cleaned(self, stage: Stage) -> Counter[str]:
        """How many of each state are gone, by the events."""
        total: Counter[str] = Counter()
        for event in stage.ledger().of_kind(EventKind.MESSAGES_CLEANED):
            total.update(event.data)
        return total


@dataclass(frozen=True)
class Operating(Scenario):
    """A person's change and the event that tells of it: both or neither."""

    KINDS: ClassVar[tuple[EventKind, ...]] = (
        EventKind.MESSAGE_SENT_BY_HAND,
        EventKind.MESSAGE_EDITED,
        EventKind.MESSAGE_ANSWERED_BY_HAND,
        EventKind.MESSAGE_MOVED_BY_HAND,
    )

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        fill(stage, "double", True, 3)
        stage.crash("operate", self.at(point), ids=[message.id for message in stage.ledger().messages])

    def recover(self, stage: Stage) -> None:
        """Nothing: what a person has not done is for the person to do again."""

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.ledger()
        done = self.passes if point is CrashPoint.OPERATE_AFTER_COMMIT else self.passes - 1
        by_hand = [event for event in ledger.events if event.who == "ann"]
        assert [event.kind for event in by_hand] == list(self.KINDS[:done])
        edited, answered, moved = ledger.asked[:3]
        sent = ledger.asked[3:]
        assert [message.id for message in sent] == [event.subject for event in by_hand[:1]]
        assert edited.payload == {"n": 21 if done >= 2 else 0}
        assert answered.state == (MessageState.OK if done >= 3 else MessageState.NEW)
        assert [(m.related_id, m.payload) for m in ledger.answers] == [(answered.id, {"by": "hand"})] * (done >= 3)
        assert moved.state == (MessageState.DEAD if done >= 4 else MessageState.NEW)
        assert [event.subject for event in by_hand[1:]] == [edited.id, answered.id, moved.id][: max(0, done - 1)]


@dataclass(frozen=True)
class Migrating(Scenario):
    """Tables are made whole or not at all, and the next process makes what is missing."""

    # Files or schemas that are made, one after another: on SQLite it dies with the first made and the second not.
    is_for: ClassVar[dict[str, int]] = {"sqlite": 2, "postgres": 1}

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        passes = min(self.passes, self.is_for[stage.dialect])
        stage.crash("nothing", f"{point}:{passes}")
        made = passes if point is CrashPoint.MIGRATE_AFTER_COMMIT else passes - 1
        with closing(connect_database(stage.settings.database)) as database:
            assert [not pending(target) for target in targets(database)] == [
                number < made for number in range(self.is_for[stage.dialect])
            ]
            if stage.dialect == "sqlite":
                assert [target.catalogue() != set() for target in targets(database)] == [made > 0, made > 1]
            else:
                with database.read() as tx:
                    found = tx.rows(SCHEMAS, {"schema": stage.settings.database.db_schema})
                assert len(found) == made

    def recover(self, stage: Stage) -> None:
        fill(stage, "double", True, 1)  # this process makes what is missing
        stage.run("recover")

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        assert [message.state for message in ledger.messages] == [MessageState.OK] * 2
