"""Process rows: who is alive, by a lease that each process renews and that the database's time decides.

A process has an id that is new at each start. It renews its lease every heartbeat; when the lease has run out, anyone
may declare it dead and free what it owned. Three rules keep the living safe:

1. A process whose row says dead exits: others have taken its work.
2. A process that could not renew for a whole lease (the database was away, the machine slept) treats itself as dead
   until it has renewed, and starts nothing new.
3. A process that has not held its own lease without a break for one full lease frees nobody. After an outage, or when
   the database's clock was set forward, all leases have run out; this gives everybody the time to renew before anybody
   is declared dead. The statement that declares it asks once more, by the database's time.

None of this is needed for a process that the kernel of its own machine does not know any more (`core/os_processes.py`):
it is dead at once.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple
from uuid import uuid4

from towpath.core import os_processes
from towpath.core.clock import MICROS, Clock, to_datetime
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db.database import Database, Queries, Row, Transaction, storable
from towpath.db.event_log import EventLog
from towpath.errors import ProcessDead
from towpath.settings import ProcessSettings

logger = logging.getLogger(__name__)

EXIT_CODE_DEAD = 70
NEIGHBOURS = 16  # of its machine, that a process looks after
LONGEST_STATUS = 200


def leave_at_once() -> None:
    """End this process because it was declared dead: no clean-up, since nothing it holds is its own any more."""
    logger.critical("this process was declared dead by another; leaving at once")
    os._exit(EXIT_CODE_DEAD)


class Process:
    """This process as others see it: its id, its lease, and what it may do while it holds the lease."""

    def __init__(
        self, database: Database, settings: ProcessSettings, clock: Clock, identity: Identity | None = None
    ) -> None:
        self.id = f"{settings.name}-{uuid4().hex[:12]}"
        self.settings = settings
        self.identity = identity or Identity()
        self.on_ready: Callable[[], None] | None = None
        self._said: tuple[str, str | None] = "", None
        self._database = database
        self._store = ProcessStore(database)
        self.clock = clock
        self._lease_us = int(settings.lease_s * MICROS)
        self._leased_until = float("-inf")  # by the local clock, which can only make us stop sooner
        self._unbroken_since = float("inf")
        self._until_us = 0
        self._ticks = 0
        self._lock = threading.Lock()

    def register(self) -> None:
        started = self.clock.monotonic()
        with self._database.beats.single() as tx:
            self._until_us = self._store.register(tx, self.id, self.settings.name, self._lease_us, self.identity)
        self._unbroken_since = started
        self._leased_until = started + self.settings.lease_s

    def renew(self) -> None:
        """One beat. Raises `ProcessDead` when another process has declared this one dead."""
        started = self.clock.monotonic()
        with self._database.beats.single() as tx:
            until_us = self._store.renew(tx, self.id, self._lease_us, *self._said)
        if until_us is None:
            self._leased_until = float("-inf")
            raise ProcessDead(f"process {self.id} was declared dead: its claims belong to others now")
        if started > self._leased_until or self._clock_was_set(until_us, started):
            self._unbroken_since = started
        self._until_us = until_us
        self._leased_until = started + self.settings.lease_s

    def report(self, status: str, progress: Mapping[str, Any] | None = None) -> None:
        """Say what this process does and how far it is; others see it with the next beat."""
        text = None if progress is None else storable(json.dumps(dict(progress), default=str))
        self._said = storable(status)[:LONGEST_STATUS], text

    def ready(self, status: str = "at work") -> None:
        """Say that this process is at work: from now on its end is not taken for a failed start."""
        self.report(status)
        with self._database.beats.single() as tx:
            self._store.ready(tx, self.id, self._said[0])
        if self.on_ready is not None:
            self.on_ready()

    def stop(self) -> None:
        with self._database.beats.single() as tx:
            self._store.stop(tx, self.id)
        self._leased_until = float("-inf")

    @property
    def is_leased(self) -> bool:
        return self.clock.monotonic() < self._leased_until

    @property
    def may_declare_dead(self) -> bool:
        """Rule 3: only a process that has held its own lease for a full lease may declare another dead."""
        return self.is_leased and self.clock.monotonic() - self._unbroken_since >= self.settings.lease_s

    def mark_dead(self) -> list[str]:
        """Declare dead the processes whose lease ran out, if this process may; returns their ids.

        The database's clock may be set just now. A beat that comes after it brings this process's own lease up to date
        and leaves the others' behind: whoever decided before that beat decides nothing.
        """
        until_us = self._until_us  # before the question: a beat that breaks the lease says so before it sets this
        if not self.may_declare_dead:
            return []
        with self._database.beats.transaction() as tx:
            return self._store.mark_dead(tx, self.id, until_us, self._lease_us)

    def next_tick(self) -> int:
        """A number for one claim, unique within this process."""
        with self._lock:
            self._ticks += 1
            return self._ticks

    def check_leased(self) -> None:
        if not self.is_leased:
            raise ProcessDead(f"process {self.id} could not renew its lease in time; it claims nothing until it has")

    def _clock_was_set(self, until_us: int, started: float) -> bool:
        """Whether the database's clock went ahead of ours since the last beat: then all leases seem to have run out."""
        since_last_s = started + self.settings.lease_s - self._leased_until
        return (until_us - self._until_us) / MICROS - since_last_s > self.settings.lease_s / 2


class Heartbeat(Service):
    """Renews the lease of this process."""

    name = "heartbeat"

    def __init__(
        self,
        process: Process,
        events: Events,
        on_dead: Callable[[], None] = leave_at_once,
        also: Callable[[], None] | None = None,
    ) -> None:
        """`also` is called after each beat."""
        super().__init__(events)
        # After an outage it must be back within a lease, or another process that was faster would declare it dead.
        self.longest_pause_s = process.settings.heartbeat_s
        self._process = process
        self._on_dead = on_dead
        self._also = also

    def run_once(self) -> RoundResult:
        try:
            self._process.renew()
        except ProcessDead:
            self._on_dead()
            raise
        if self._also is not None:
            self._also()
        return RoundResult(1, self._process.settings.heartbeat_s)


@dataclass(frozen=True, slots=True)
class Identity:
    """What kind of work a process does, and for which start of which duty."""

    kind: str = ""  # such as `flow`, `desk` or `peer`; empty: a program that uses Towpath
    duty: str | None = None
    launch: int | None = None
    ping_address: str | None = None  # host and port where it answers


def record_start(log: EventLog, tx: Transaction, process: Process) -> None:
    log.record(
        tx, Event(EventKind.PROCESS_STARTED, process.id, data={"host": socket.gethostname(), "pid": os.getpid()})
    )


def record_stop(log: EventLog, tx: Transaction, process: Process) -> None:
    log.record(tx, Event(EventKind.PROCESS_STOPPED, process.id))


class ProcessStore:
    """The `process` table, in the database's `beats`."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.db", "processes", database.dialect)

    def register(self, tx: Transaction, process_id: str, name: str, lease_us: int, identity: Identity) -> int:
        """A new row; returns until when its lease goes, by the database's time."""
        on, pid, born = os_processes.me()
        rows = tx.rows(
            self._sql["register_process"],
            {
                "id": process_id,
                "name": name,
                "host": socket.gethostname(),
                "pid": pid,
                "machine": on,
                "born": born,
                "lease_us": lease_us,
                "kind": identity.kind,
                "version": _version(),
                "duty": identity.duty,
                "launch": identity.launch,
                "ping_address": identity.ping_address,
            },
        )
        return int(rows[0][0])

    def renew(
        self, tx: Transaction, process_id: str, lease_us: int, status: str = "", progress: str | None = None
    ) -> int | None:
        """A beat; returns until when the lease goes, or none when this process was declared dead."""
        params = {"id": process_id, "lease_us": lease_us, "status": status, "progress": progress}
        rows = tx.rows(self._sql["renew_lease"], params)
        return rows[0][0] if rows else None

    def ready(self, tx: Transaction, process_id: str, status: str) -> None:
        tx.run(self._sql["ready_process"], {"id": process_id, "status": status})

    def stop(self, tx: Transaction, process_id: str) -> bool:
        return bool(tx.rows(self._sql["stop_process"], {"id": process_id}))

    def mark_dead(self, tx: Transaction, me: str, until_us: int, lease_us: int) -> list[str]:
        """Declare dead the processes whose lease ran out; returns their ids. None if the lease of `me` has changed."""
        params = {"me": me, "until": until_us, "half": lease_us // 2}
        return [row[0] for row in tx.rows(self._sql["mark_dead"], params)]

    def gone(self, tx: Transaction, me: str, most: int = NEIGHBOURS) -> list[str]:
        """Processes that should be alive on this machine and are not, of the next ones after `me` in a ring of all.

        Hundreds that all looked after all others would do little else; this way each has as many who look after it.
        """
        here = os_processes.machine()
        rows = tx.rows(self._sql["alive_on_machine"], {"machine": here, "me": me, "most": most}) if here else []
        return [id_ for id_, pid, born in rows if os_processes.is_gone(here, pid, born)]

    def mark_silent(self, tx: Transaction, process_id: str, silent_us: int) -> bool:
        """Declare a process dead that has not beaten for so long; true also when it is dead, false when it beats."""
        return bool(tx.rows(self._sql["mark_silent"], {"id": process_id, "silent_us": silent_us}))

    def mark_gone(self, tx: Transaction, process_id: str) -> bool:
        """Declare a process dead that is gone; false when another process has done so before."""
        return bool(tx.rows(self._sql["mark_gone"], {"id": process_id}))

    def unsettled(self, tx: Transaction) -> list[DeadProcess]:
        rows = tx.rows(self._sql["unsettled_dead"], {})
        return [DeadProcess(*row[:4], *map(to_datetime, row[4:])) for row in rows]

    def settle(self, tx: Transaction, process_id: str) -> None:
        tx.run(self._sql["settle_death"], {"id": process_id})

    def living(self, tx: Transaction, process_ids: Iterable[str]) -> set[str]:
        """Which of these are alive by their row."""
        rows = tx.rows(self._sql["living"], {"ids": json.dumps(list(process_ids))})
        return {row[0] for row in rows}

    def all(self, tx: Transaction) -> list[ProcessRow]:
        return [ProcessRow.from_row(row) for row in tx.rows(self._sql["list_processes"], {})]

    def beats(self, tx: Transaction) -> list[Beat]:
        """The last beats of processes that do duties and are not long gone."""
        return [Beat(*row) for row in tx.rows(self._sql["beats_of_duties"], {})]

    def addresses(self, tx: Transaction, kind: str) -> list[tuple[str, str]]:
        """Names and addresses of the living processes of a kind, the newest last."""
        return [(name, address) for name, address in tx.rows(self._sql["addresses_of_kind"], {"kind": kind})]

    def find(self, tx: Transaction, name: str) -> ProcessRow | None:
        """The process of that id, or the newest of that name or duty."""
        rows = tx.rows(self._sql["find_process"], {"name": name})
        return ProcessRow.from_row(rows[0]) if rows else None

    def forget(self, tx: Transaction, older_than_us: int) -> int:
        return tx.run(self._sql["forget_processes"], {"older_than": older_than_us})


@contextmanager
def beats_within(database: Database, tx: Transaction) -> Iterator[Transaction]:
    """A transaction for one statement about process rows: `tx` itself where they are in the same database."""
    if database.beats is database:
        yield tx
    else:
        with database.beats.single() as beats:
            yield beats


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A row of the `process` table."""

    id: str
    name: str
    host: str
    pid: int
    state: str
    kind: str
    version: str
    duty: str | None
    launch: int | None
    status: str
    progress: dict[str, Any] | None
    ping_address: str | None
    started_at: datetime
    beat_at: datetime
    lease_until: datetime
    ready_at: datetime | None

    @classmethod
    def from_row(cls, row: Row) -> ProcessRow:
        *values, progress, ping_address, started_us, beat_us, until_us, ready_us = row
        progress = None if progress is None else json.loads(progress)
        ready_at = None if ready_us is None else to_datetime(ready_us)
        times = *map(to_datetime, (started_us, beat_us, until_us)), ready_at
        return cls(*(*values, progress, ping_address, *times))


class Beat(NamedTuple):
    """The last beat of a process; times are the database's microseconds."""

    process_id: str
    pid: int
    is_dead: int
    beat_us: int
    until_us: int
    ping_address: str | None


@dataclass(frozen=True, slots=True)
class DeadProcess:
    """A process that died, for the record."""

    id: str
    name: str
    host: str
    pid: int
    last_beat: datetime
    leased_until: datetime


@cache
def _version() -> str:
    return version("towpath")
