"""One run: load, kills, faults, and then rest, so that the books can be balanced."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from soak.queue.connecting import connect_patiently
from soak.queue.crew import Crew
from soak.queue.plan import (
    DISTURBED_AT,
    HEADROOM,
    INBOXES,
    PRODUCERS,
    SENDING_SHARE,
    Plan,
    handled_journal,
    sections,
    sent_journal,
)
from soak.queue.stores import Fault, Store
from towpath import Runtime
from towpath.db import Database
from towpath.errors import DatabaseError, SchemaError
from towpath.queue import MessageState
from towpath.queue.outbox import reply_inbox
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess
from towpath.testing.queue_ledger import QueueLedger, read_ledger, read_processes, verify_schema

ROOT = Path(__file__).parents[2]
TICK_S = 0.05
PRODUCER_EVERY = 10  # of the kills, one hits a producer
REST_S = 180.0  # for the last answers and the last deaths


@dataclass
class Progress:
    """How far the run has come, for whoever watches it."""

    passed_s: float = 0.0
    phase: str = "work"
    kills: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What is left of a run: the tables, and what the crew went through."""

    ledger: QueueLedger
    crew: Crew
    faults: tuple[str, ...]
    read_again: int  # answers whose reading was forgotten by a server that crashed
    schema: str  # in what the tables differ from the migrations; nothing when all is well
    duration_s: float


T = TypeVar("T")
Watch = Callable[[Progress], None]


class Drill:
    """Runs a plan on a store."""

    def __init__(self, plan: Plan, store: Store, home: Path, watch: Watch) -> None:
        self._plan = plan
        self._store = store
        self._home = home
        self._watch = watch
        self._progress = Progress()

    def run(self) -> Outcome:
        started = time.monotonic()
        with connect_patiently(sections(self._store.settings, "soak")) as runtime:
            for inbox in INBOXES:
                runtime.queue.inbox(inbox)
            with Crew(random.Random(self._plan.seed)) as crew:
                self._hire(crew)
                self._disturb(crew)
                self._come_to_rest(crew, runtime.database)
                crew.dismiss("worker")
                read_again = _patiently(lambda: _read_again(runtime))
                ledger = _patiently(lambda: read_ledger(runtime.database))
                schema = _differences(runtime.database)
        return Outcome(ledger, crew, tuple(self._progress.faults), read_again, schema, time.monotonic() - started)

    def _hire(self, crew: Crew) -> None:
        now = time.time()
        share = int(self._plan.messages * HEADROOM / PRODUCERS) + 1
        until = now + self._plan.seconds * SENDING_SHARE
        for slot in range(self._plan.workers):
            crew.add("worker", self._starter("worker", slot, journal=str(handled_journal(self._home, slot))))
        for slot in range(PRODUCERS):
            journal = str(sent_journal(self._home, slot))
            crew.add(
                "producer",
                self._starter("producer", slot, journal=journal, share=share, started_at=now, until=until),
            )

    def _starter(self, role: str, slot: int, **told: Any) -> Callable[[], ChildProcess]:
        order = {"slot": slot, "sections": sections(self._store.settings, f"{role}-{slot}"), **told}
        log = self._home / f"{role}-{slot}.log"
        return lambda: ChildProcess(f"soak.queue.{role}", order, log=log, cwd=ROOT)

    def _disturb(self, crew: Crew) -> None:
        """Kill one process every so often; let the database suffer twice meanwhile."""
        plan = self._plan
        with _faults_in_background(plan.seconds, self._store.faults, self._progress.faults):
            started = time.monotonic()
            next_kill = plan.kill_every_s
            while (passed := time.monotonic() - started) < plan.seconds:
                if passed >= next_kill:
                    next_kill += plan.kill_every_s
                    self._progress.kills += 1
                    crew.kill_one("producer" if self._progress.kills % PRODUCER_EVERY == 0 else "worker")
                crew.refill()
                self._progress.passed_s = passed
                self._watch(self._progress)
                time.sleep(TICK_S)

    def _come_to_rest(self, crew: Crew, database: Database) -> None:
        """No more kills: wait until every answer is fetched and everybody who died is buried."""
        self._progress.phase = "rest"

        def is_at_rest() -> bool:
            crew.refill()
            self._watch(self._progress)
            return crew.is_done("producer") and _patiently(lambda: _are_dead_settled(database, crew.pids()))

        wait_until(is_at_rest, REST_S, "the last answers and the last deaths")


@contextmanager
def _faults_in_background(seconds: float, faults: tuple[Fault, ...], happened: list[str]) -> Iterator[None]:
    """Let each fault happen at its time; an error in one is raised at the end."""
    over = threading.Event()

    def suffer() -> None:
        started = time.monotonic()
        for part, fault in zip(DISTURBED_AT, faults, strict=True):
            if over.wait(max(0.0, seconds * part - (time.monotonic() - started))):
                return
            happened.append(f"{fault.name} at {time.monotonic() - started:.0f} s")
            fault.happen()

    with ThreadPoolExecutor(1) as pool:
        suffering: Future[None] = pool.submit(suffer)
        try:
            yield
        except BaseException:
            over.set()
            raise
        suffering.result()


def _read_again(runtime: Runtime) -> int:
    """Fetch answers that still wait, as an asker does after a crash: that one was read is not synced on PostgreSQL."""
    count = 0
    for slot in range(PRODUCERS):
        outbox = runtime.queue.outbox(f"producer-{slot}")
        waiting = runtime.queue.browser().page(inbox=reply_inbox(outbox.name), state=MessageState.NEW, limit=1000)
        for answer in waiting:
            if answer.related_id is not None and outbox.poll(answer.related_id) is not None:
                count += 1
    return count


def _differences(database: Database) -> str:
    try:
        verify_schema(database)
    except SchemaError as error:
        return str(error)
    return ""


def _are_dead_settled(database: Database, living: set[int]) -> bool:
    rows = read_processes(database)
    strays = [row for row in rows if row.state == "alive" and row.pid not in living]
    return not strays and all(row.is_settled for row in rows if row.state == "dead")


def _patiently(read: Callable[[], T]) -> T:
    while True:
        try:
            return read()
        except DatabaseError:
            time.sleep(TICK_S)
