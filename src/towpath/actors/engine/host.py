"""The host of actors: one thread that talks to the database, and worker threads that run the code of states."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Generic, TypeVar

from towpath.actors.definition import Definition
from towpath.actors.engine.commit import Committer, ContinuedInstance
from towpath.actors.engine.intake import ActorIntake
from towpath.actors.engine.recovery import ActorJanitor, InstanceRecovery
from towpath.actors.engine.run import ClaimedInstance, ClaimedTurn, Claimer, TurnResult, failed, run, timed_out
from towpath.actors.instance import Instance
from towpath.actors.instance_store import ActorContext
from towpath.actors.schedules.scheduler import Scheduler
from towpath.actors.turn import Turn
from towpath.core.crash import Crashed
from towpath.core.service import RoundResult, Service
from towpath.db import Transaction
from towpath.db.wakeups import Wakeup
from towpath.errors import CommitUnknown, DatabaseUnavailable, ProcessDead
from towpath.queue.model import Message
from towpath.queue.payload import ACTORS

logger = logging.getLogger(__name__)

EVERYBODY = f"{ACTORS}*"
IN_A_ROW = 100  # states of one instance before others that are due get its place
ROOM_FOR_SEVERAL = 4  # of the workers, one of so many
STRAYS_EVERY_S = 10.0

T = TypeVar("T")


class Host(Service):
    """Claims what is due, runs it, commits what came of it."""

    name = "actors"

    def __init__(self, parts: ActorContext, definitions: Mapping[str, Definition]) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._definitions = definitions
        self._intake = ActorIntake(parts, definitions)
        self._claimer = Claimer(parts, definitions)
        self._committer = Committer(parts)
        self._recovery = InstanceRecovery(parts, definitions, self._intake)
        self._running: dict[str, ClaimedTurn] = {}
        self._done: deque[TurnResult] = deque()
        self._workers = Workers(parts.settings.workers, self._run)
        self.scheduler = Scheduler(parts, definitions)
        self.janitor = ActorJanitor(parts)
        self.left: list[Instance] = []  # what was running when the last stop did not wait any longer
        self._listeners: list[Callable[[TurnResult], None]] = []
        self._bell: Wakeup | None = None
        self._disabled: frozenset[str] = frozenset()
        self._are_more_due = False  # as the last claim has shown
        self._due_s: float | None = None  # until the next instance is due, as it was in this round
        self._upkeep_at = self._strays_at = float("-inf")

    @property
    def running(self) -> list[Instance]:
        """What is being run here."""
        return [work.instance for work in self._running.values()]

    def listen(self, listener: Callable[[TurnResult], None]) -> None:
        """Call it for each state that was run here, once that is written down. It must be quick, and not raise."""
        self._listeners.append(listener)

    def start(self) -> None:
        self._parts.process()  # a process row before the first claim, and an error here rather than in the loop
        if self._bell is None:
            self._bell = self._parts.database.wakeups.hang(EVERYBODY)
        super().start()

    def rest(self, seconds: float) -> None:
        if self._bell is not None:
            self._bell.wait(seconds)

    def wake(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def run_once(self) -> RoundResult:
        if self._bell is not None:
            self._bell.clear()
        committed = self._commit()
        self._upkeep()
        taken = self._intake.take(self._disabled)
        claimed = self._claim(is_busy=committed > 0)
        done = committed + taken + claimed
        return RoundResult(done, 0.0 if done or self._done else self._rest_s())

    def on_stop(self) -> None:
        """What runs is brought to its end, if that does not take too long; what does not end is another's to free."""
        deadline = time.monotonic() + self._parts.settings.grace_s
        while self._running and time.monotonic() < deadline:
            try:
                if not self._commit() and self._bell is not None:
                    self._bell.clear()
                    self._bell.wait(0.05)
            except (DatabaseUnavailable, CommitUnknown, ProcessDead) as error:
                logger.warning("actors: stopping, and what ran cannot be written down yet: %s", error)
                time.sleep(0.2)
        self.left = self.running
        for work in self._running.values():
            logger.warning("actors: %s is left in %s, it took too long", work.instance.name, work.message.function)
            work.turn.abort()
        self._workers.end()
        self._running.clear()
        self._done.clear()
        self.scheduler.stop()
        self.janitor.stop()

    # Claiming and running

    def _claim(self, *, is_busy: bool) -> int:
        self._begin_claimed(self._claimer.settle(self._running))
        free = self._parts.settings.workers - len(self._running)
        self._due_s = None
        if not self._is_enough(free, is_busy=is_busy):
            return 0
        self._due_s = self._claimer.seconds_until_due(self._disabled)  # a reader disturbs nobody
        if self._due_s is None or self._due_s > 0:
            return 0
        claimed = self._claimer.claim(free, self._disabled)
        self._are_more_due = len(claimed) == free
        self._begin_claimed(claimed)
        return len(claimed)

    def _begin_claimed(self, claimed: Iterable[ClaimedInstance]) -> None:
        for each in claimed:
            self._begin(self._work(each.instance, each.message), each)

    def _is_enough(self, room: int, *, is_busy: bool) -> bool:
        """While states end all the time, a claim waits until there is room for several: one costs as much as many."""
        least = self._parts.settings.workers // ROOM_FOR_SEVERAL if is_busy else 0
        return room > least and not self.is_stopping

    def _work(self, instance: Instance, message: Message, in_a_row: int = 0) -> ClaimedTurn:
        turn = Turn(self._parts, instance, message)
        return ClaimedTurn(self._definitions[instance.actor], instance, message, turn, in_a_row)

    def _begin(self, work: ClaimedTurn, claimed: ClaimedInstance | None = None) -> None:
        self._running[work.instance.inbox] = work
        if claimed is not None and claimed.is_timed_out:
            self._done.append(timed_out(work))
            return
        self._workers.begin(work, len(self._running))

    def _run(self, work: ClaimedTurn) -> None:
        try:
            done = run(work, self._parts.queue.settings.max_payload_bytes)
        except Crashed:
            raise
        except BaseException as error:  # or nobody would ever hear of it, and its thread would be gone
            logger.exception("actors: %s could not be run", work.instance.name)
            done = failed(work, f"{work.message.function} could not be run: {type(error).__name__}")
        self._done.append(done)
        self.wake()

    # Writing down

    def _commit(self) -> int:
        """Commit what is done. When the database is away it stays to be done, and the error is the service's."""
        dones = list(islice(self._done, len(self._done)))
        if not dones:
            return 0
        claimed: list[ClaimedInstance] = []
        try:
            goes_on = self._committer.commit(dones, self._may_go_on, partial(self._exchange, claimed, len(dones)))
        except CommitUnknown:
            self._claimer.doubt(claimed)
            raise
        except DatabaseUnavailable:
            raise
        except Exception:
            claimed.clear()
            dones = dones[:1]  # one of them cannot be written: it fails alone, sooner or later in this way
            goes_on = self._commit_alone(dones[0])
        for done in dones:
            self._done.popleft()
            self._running.pop(done.work.instance.inbox, None)
            for listener in self._listeners:
                listener(done)
        for each in goes_on:
            self._begin(self._work(each.instance, each.message, each.done.work.in_a_row + 1))
        self._begin_claimed(claimed)
        return len(dones)

    def _exchange(self, claimed: list[ClaimedInstance], done: int, tx: Transaction, go_on: int) -> None:
        """While there are more that are due, they are claimed in the transaction that makes room for them."""
        room = self._parts.settings.workers - len(self._running) + done - go_on
        if self._are_more_due and self._is_enough(room, is_busy=True) and self._parts.process().is_leased:
            claimed += self._claimer.claim_in(tx, room, self._disabled)
            self._are_more_due = len(claimed) == room

    def _commit_alone(self, done: TurnResult) -> list[ContinuedInstance]:
        try:
            return self._committer.commit([done], self._may_go_on)
        except (DatabaseUnavailable, CommitUnknown):
            raise
        except Exception as error:
            logger.warning("actors: what %s did cannot be written", done.work.instance.name, exc_info=True)
            reason = f"{done.work.message.function}: what it did cannot be written: {type(error).__name__}: {error}"
            self._done[0] = failed(done.work, reason)
            return self._commit_failed(done)

    def _commit_failed(self, done: TurnResult) -> list[ContinuedInstance]:
        """That it failed can be written in any case: nothing of what its code said is in it then."""
        try:
            return self._committer.commit([self._done[0]], self._may_go_on)
        except (DatabaseUnavailable, CommitUnknown):
            raise
        except Exception:
            logger.warning("actors: why %s failed cannot be written", done.work.instance.name, exc_info=True)
            self._done[0] = failed(done.work, "what it did cannot be written, nor why; the log of its process has it")
            return self._committer.commit([self._done[0]], self._may_go_on)

    def _may_go_on(self, done: TurnResult) -> bool:
        """Whether its next state may keep the place that it has here."""
        is_wanted = done.work.instance.actor not in self._disabled
        return is_wanted and not self.is_stopping and done.work.in_a_row < IN_A_ROW

    # Looking after things

    def _upkeep(self) -> None:
        monotonic = time.monotonic()
        if monotonic - self._upkeep_at < self._parts.queue.settings.caretaker_s:
            return
        self._upkeep_at = monotonic
        if self.is_running:  # here, in the thread that also stops them
            self.scheduler.start()
            self.janitor.start()
        with self._parts.database.glance() as tx:
            self._disabled = self._parts.instances.disabled(tx)
        self._recovery.free_the_dead()
        self._tell_aborted()
        if monotonic - self._strays_at >= STRAYS_EVERY_S:
            self._strays_at = monotonic
            self._recovery.look_for_strays()

    def _tell_aborted(self) -> None:
        """Let the code know that runs here whose run is to end."""
        if not self._running:
            return
        with self._parts.database.glance() as tx:
            aborted = self._parts.instances.aborted(tx, self._parts.process().id)
        for inbox in aborted & self._running.keys():
            self._running[inbox].turn.abort()

    def _rest_s(self) -> float:
        """Until the next instance is due, if there is room for it; or until something is done or has come."""
        poll_s = self._parts.queue.settings.poll_s
        return poll_s if self._due_s is None else min(max(self._due_s, 0.001), poll_s)


class Workers(Generic[T]):
    """Up to `most` threads, made when they are needed.

    They are daemons: code that never returns must not keep its process from ending. There are no futures, whose locks
    cost more than a short state: `do` says itself what came of it, and does not raise.
    """

    def __init__(self, most: int, do: Callable[[T], None]) -> None:
        self._most = most
        self._do = do
        self._waiting: SimpleQueue[T | None] = SimpleQueue()
        self._threads = 0

    def begin(self, work: T, in_hand: int) -> None:
        """Run this. `in_hand` is how many there are in all, this one included: so many threads are enough."""
        self._waiting.put(work)
        if self._threads < min(in_hand, self._most):
            self._threads += 1
            name = f"actor-{self._threads}"
            threading.Thread(target=self._work, args=(self._waiting,), name=name, daemon=True).start()

    def end(self) -> None:
        """What waits is not begun any more, and each thread ends after what it is in."""
        while not self._waiting.empty():
            self._waiting.get()
        for _ in range(self._threads):
            self._waiting.put(None)
        # What is begun from now on is not for these threads, of which one may still be in something long.
        self._waiting, self._threads = SimpleQueue(), 0

    def _work(self, waiting: SimpleQueue[T | None]) -> None:
        while (work := waiting.get()) is not None:
            self._do(work)
