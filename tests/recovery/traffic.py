"""Scenarios of those who send, handle and give back messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tests.recovery.acts import INBOX
from tests.recovery.scenario import Scenario, fill
from tests.recovery.stage import Stage

from towpath.core.crash import CrashPoint
from towpath.queue import MessageState
from towpath.queue.payload import new_id

FUNCTIONS = ("double", "fail", "later")


@dataclass(frozen=True)
class Sending(Scenario):
    """Whoever was interrupted while sending sends again with the same ids."""

    COUNT: ClassVar[int] = 4

    def crash(self, stage: Stage, point: CrashPoint) -> None:
        stage.runtime.queue.inbox(INBOX)
        ids = [new_id() for _ in range(self.COUNT)]
        stage.crash("send_each", self.at(point), ids=ids)
        written = [message.id for message in stage.ledger().messages]
        possible = [ids[: self.passes]]
        if point is CrashPoint.SEND_BEFORE_COMMIT:
            possible.append(ids[: self.passes - 1])  # but a single statement is its own commit, and may be there too
        assert written in possible
        stage.run("send_again_and_recover", ids=ids)
        assert [entry["id"] for entry in stage.journal("found")] == written

    def recover(self, stage: Stage) -> None:
        """Done with the sending."""

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
