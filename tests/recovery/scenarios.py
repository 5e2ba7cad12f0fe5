"""For each crash point: work that passes it, and what the complete tables must say when others have taken over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

from tests.recovery.acts import ASKER, INBOX
from tests.recovery.stage import Stage

from towpath.crash import CrashPoint
from towpath.db import Query
from towpath.db.migration_targets import targets
from towpath.db.migrations import pending
from towpath.db.open import connect_database
from towpath.events import EventKind
from towpath.queue import MessageState
from towpath.queue.payload import new_id

FUNCTIONS = ("double", "fail", "later")
SCHEMAS = Query("schemas", "select 1 from pg_namespace where nspname = %(schema)s", uses_now=False)


@dataclass(frozen=True)
class Scenario(ABC):
    """Die at the `passes`-th pass through the point; then recover and compare."""

    passes: int = 1

    @abstractmethod
    def crash(self, stage: Stage, point: CrashPoint) -> None:
        """Prepare the database and let a process die at the point."""

    def recover(self, stage: Stage) -> None:
        """Let a fresh process bring everything to its end."""
        stage.run("recover")

    @abstractmethod
    def check(self, stage: Stage, point: CrashPoint) -> None:
        """Compare what is with what must be."""

    def at(self, point: CrashPoint) -> str:
        return f"{point}:{self.passes}"


@dataclass(frozen=True)
class Sending(Scenario):
    """Whoever was interrupted while sending sends again with the same ids."""

    COUNT: ClassVar[int] = 4

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        stage.runtime.queue.inbox(INBOX)
        ids = [new_id() for _ in range(self.COUNT)]
        stage.crash("send_each", self.at(point), ids=ids)
        written = [message.id for message in stage.ledger().messages]
        # A single statement is its own commit, so the last one may be there also "before" the commit.
        assert written in (
            ids[: self.passes],
            ids[: self.passes - 1][: self.COUNT * (point is not _P.SEND_AFTER_COMMIT)],
        )
        stage.run("send_each", ids=ids)
        assert [entry["id"] for entry in stage.journal("found")] == written

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        assert len(ledger.asked) == self.COUNT
        assert set(stage.handled.values()) == {1}


@dataclass(frozen=True)
class SendingMany(Scenario):
    """Many go in portions: each is there whole, or not at all."""

    PORTION: ClassVar[int] = 3

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        stage.runtime.queue.inbox(INBOX)
        stage.crash("send_many", self.at(point), portion=self.PORTION, count=3 * self.PORTION)

    def check(self, stage: Stage, point: CrashPoint) -> None:
        portions = self.passes if point is CrashPoint.SEND_AFTER_COMMIT else self.passes - 1
        ledger = stage.settled_ledger()
        assert [message.payload["n"] for message in ledger.asked] == list(range(portions * self.PORTION))
        assert set(stage.handled.values()) <= {1}


@dataclass(frozen=True)
class Handling(Scenario):
    """A worker dies over one message of a given kind; the others behind it must not notice."""

    function: str = "double"
    is_request: bool = True
    left: tuple[int, ...] = (0,)  # how many claims the death may leave behind
    is_handled: bool = False  # whether these have been handled, and will be again
    threads: int = 0  # 0: the synchronous inbox, which claims the next message with the finish of the last

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        fill(stage, self.function, self.is_request, self._count)
        stage.crash("work", self.at(point), threads=self.threads)
        stage.look_at_what_is_left()
        assert len(stage.left) in self.left
        assert stage.left_handled == (stage.left if self.is_handled else set())

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        state = MessageState.ERR if self.function == "fail" else MessageState.OK
        assert [message.state for message in ledger.asked] == [state] * self._count
        assert len(stage.journal("answered")) == (self._count if self.is_request else 0)
        if self.function == "later":
            assert [message.give_backs for message in ledger.asked] == [1] * self._count

    @property
    def _count(self) -> int:
        return self.passes + 2


@dataclass(frozen=True)
class HandlingSeveral(Scenario):
    """A worker with four threads dies: which messages it held is chance, but all are accounted for."""

    COUNT: ClassVar[int] = 24
    THREADS: ClassVar[int] = 4

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        for function in FUNCTIONS:
            fill(stage, function, True, self.COUNT // 6)
            fill(stage, function, False, self.COUNT // 6)
        stage.crash("work", self.at(point), threads=self.THREADS)
        stage.look_at_what_is_left()
        assert len(stage.left) <= self.THREADS

    def recover(self, stage: Stage) -> None:
        stage.run("recover", threads=self.THREADS)

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        assert ledger.states() == {
            MessageState.OK: self.COUNT * 2 // 3 + self.COUNT // 2,
            MessageState.ERR: self.COUNT // 3,
        }


@dataclass(frozen=True)
class HandlingInBatches(Scenario):
    """A batch is claimed by one statement and finished by one transaction: it is done or redone whole."""

    BATCH: ClassVar[int] = 3
    act: str = "work_in_batches"
    left: int = 0
    is_handled: bool = False
    extra: int = 1  # messages beyond the batches that are passed; the next batch, where one is claimed ahead

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        fill(stage, "double", True, self._count)
        stage.crash(self.act, self.at(point), batch=self.BATCH)
        stage.look_at_what_is_left()
        assert len(stage.left) == self.left * self.BATCH
        assert stage.left_handled == (stage.left if self.is_handled else set())

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        assert [message.state for message in ledger.asked] == [MessageState.OK] * self._count

    @property
    def _count(self) -> int:
        return self.passes * self.BATCH + self.extra


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

    is_for: ClassVar[dict[str, int]] = {"sqlite": 2, "postgres": 1}  # files or schemas that are made, one after another

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
        stage.run("nothing")
        fill(stage, "double", True, 1)
        stage.run("recover")

    def check(self, stage: Stage, point: CrashPoint) -> None:
        ledger = stage.settled_ledger()
        assert [message.state for message in ledger.messages] == [MessageState.OK] * 2


def fill(stage: Stage, function: str, is_request: bool, count: int, inbox: str = INBOX) -> None:
    """Send work to be done, from this process."""
    if inbox == INBOX:
        stage.runtime.queue.inbox(inbox)
    box = stage.runtime.queue.outbox(ASKER)
    for number in range(count):
        (box.send if is_request else box.notice)(inbox, function, {"n": number})


ONE = (1,)
# What a single statement does (claim, give back or finish a notice) is its own commit: "before" is then after it.
EITHER = (0, 1)

_P = CrashPoint

SCENARIOS: dict[CrashPoint, tuple[Scenario, ...]] = {
    _P.SEND_BEFORE_COMMIT: (Sending(1), Sending(3), SendingMany(2)),
    _P.SEND_AFTER_COMMIT: (Sending(3), SendingMany(2)),
    _P.CLAIM_BEFORE_COMMIT: (Handling(1, left=EITHER), Handling(3, is_request=False, left=EITHER, threads=1)),
    _P.CLAIM_AFTER_COMMIT: (
        Handling(1, left=ONE),
        Handling(3, is_request=False, left=ONE, threads=1),
        HandlingInBatches(2, left=1),
    ),
    _P.HANDLER_DONE: (
        Handling(1, left=ONE, is_handled=True),
        Handling(3, is_request=False, left=ONE, is_handled=True),
        Handling(2, function="fail", left=ONE, is_handled=True),
        HandlingSeveral(5),
    ),
    _P.FINISH_BEFORE_COMMIT: (
        Handling(1, left=ONE, is_handled=True, threads=1),
        Handling(2, is_request=False, left=EITHER, is_handled=True, threads=1),
        Handling(2, function="fail", left=ONE, is_handled=True),
        HandlingInBatches(2, left=1, is_handled=True),
        HandlingSeveral(5),
    ),
    _P.FINISH_AFTER_COMMIT: (
        Handling(1, threads=1),
        Handling(2, function="fail"),
        HandlingInBatches(2),
    ),
    _P.EXCHANGE_BEFORE_COMMIT: (
        Handling(1, left=ONE, is_handled=True),
        Handling(3, is_request=False, left=ONE, is_handled=True),
        HandlingInBatches(2, act="exchange_batches", left=1, is_handled=True),
    ),
    _P.EXCHANGE_AFTER_COMMIT: (
        Handling(1, left=ONE),
        Handling(3, is_request=False, left=ONE),
        HandlingInBatches(1, act="exchange_batches", left=1, extra=3),
    ),
    _P.RELEASE_BEFORE_COMMIT: (
        Handling(1, function="later", left=ONE),
        Handling(2, function="later", is_request=False, left=EITHER),
    ),
    _P.RELEASE_AFTER_COMMIT: (Handling(1, function="later"), HandlingSeveral(2)),
    _P.DEATH_MARKED: (Freeing(1),),
    _P.FREE_BEFORE_COMMIT: (Freeing(1), Freeing(2)),
    _P.FREE_AFTER_COMMIT: (Freeing(1),),
    _P.REAP_BEFORE_COMMIT: (Reaping(1), Reaping(2)),
    _P.REAP_AFTER_COMMIT: (Reaping(1),),
    _P.CLEAN_BEFORE_COMMIT: (Cleaning(1), Cleaning(2)),
    _P.CLEAN_AFTER_COMMIT: (Cleaning(1),),
    _P.OPERATE_BEFORE_COMMIT: tuple(map(Operating, (1, 2, 3, 4))),
    _P.OPERATE_AFTER_COMMIT: (Operating(4),),
    _P.MIGRATE_BEFORE_COMMIT: (Migrating(1), Migrating(2)),
    _P.MIGRATE_AFTER_COMMIT: (Migrating(1), Migrating(2)),
}
