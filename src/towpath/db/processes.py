"""Process rows: who is alive, by a lease that each process renews and that the database's time decides.

A process has an id that is new at each start. It renews its lease every heartbeat; when the lease has run out, anyone
may declare it dead and free what it owned. Three rules keep the living safe:

1. A process whose row says dead exits: others have taken its work.
2. A process that could not renew for a whole lease (the database was away, the machine slept) holds itself for dead
   until it has renewed, and starts nothing new.
3. Who has not held its own lease without a break for one full lease frees nobody. After an outage, or when the
   database's clock was set forward, all leases have run out; this gives everybody the time to renew before anybody is
   declared dead. The statement that declares it asks once more, by the database's time.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from towpath.clock import MICROS, Clock, to_datetime
from towpath.db.database import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.db.queries import Queries
from towpath.errors import ProcessDead
from towpath.events import Event, EventKind, Events
from towpath.service import Result, Service
from towpath.settings import ProcessSettings

logger = logging.getLogger(__name__)

EXIT_CODE_DEAD = 70


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process as its row has it."""

    id: str
    name: str
    host: str
    pid: int
    state: str
    started_at: datetime
    beat_at: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class DeadProcess:
    """Who died, for the record."""

    id: str
    name: str
    host: str
    pid: int
    last_beat: datetime


class ProcessStore:
    """The `process` table, in the database's `beats`."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.db", "processes", database.dialect)

    def register(self, tx: Transaction, process_id: str, name: str, lease_us: int) -> int:
        """A new row; returns until when its lease goes, by the database's time."""
        rows = tx.rows(
            self._sql["register_process"],
            {
                "id": process_id,
                "name": name,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "lease_us": lease_us,
            },
        )
        until_us: int = rows[0][0]
        return until_us

    def renew(self, tx: Transaction, process_id: str, lease_us: int) -> int | None:
        """A beat; returns until when the lease goes, or none when this process was declared dead."""
        rows = tx.rows(self._sql["renew_lease"], {"id": process_id, "lease_us": lease_us})
        return rows[0][0] if rows else None

    def stop(self, tx: Transaction, process_id: str) -> bool:
        return bool(tx.rows(self._sql["stop_process"], {"id": process_id}))

    def mark_dead(self, tx: Transaction, me: str) -> list[str]:
        """Declare dead whoever's lease ran out, and say who. Nobody, when the lease of `me` ran out as well."""
        return [row[0] for row in tx.rows(self._sql["mark_dead"], {"me": me})]

    def unsettled(self, tx: Transaction) -> list[DeadProcess]:
        rows = tx.rows(self._sql["unsettled_dead"], {})
        return [DeadProcess(id_, name, host, pid, to_datetime(beat)) for id_, name, host, pid, beat in rows]

    def settle(self, tx: Transaction, process_id: str) -> None:
        tx.run(self._sql["settle_death"], {"id": process_id})

    def living(self, tx: Transaction, process_ids: Iterable[str]) -> set[str]:
        """Which of these are alive by their row."""
        rows = tx.rows(self._sql["living"], {"ids": json.dumps(list(process_ids))})
        return {row[0] for row in rows}

    def all(self, tx: Transaction) -> list[ProcessRow]:
        rows = tx.rows(self._sql["list_processes"], {})
        return [ProcessRow(*row[:5], *map(to_datetime, row[5:])) for row in rows]

    def forget(self, tx: Transaction, older_than_us: int) -> int:
        return tx.run(self._sql["forget_processes"], {"older_than": older_than_us})


class Process:
    """This process as others see it: its id, its lease, and what it may do while it holds it."""

    def __init__(self, database: Database, settings: ProcessSettings, clock: Clock) -> None:
        self.id = f"{settings.name}-{uuid4().hex[:12]}"
        self.settings = settings
        self._database = database
        self._store = ProcessStore(database)
        self._clock = clock
        self._lease_us = int(settings.lease_s * MICROS)
        self._leased_until = float("-inf")  # by the local clock, which can only make us stop sooner
        self._unbroken_since = float("inf")
        self._until_us = 0
        self._ticks = 0
        self._lock = threading.Lock()

    def register(self) -> None:
        started = self._clock.monotonic()
        with self._database.beats.single() as tx:
            self._until_us = self._store.register(tx, self.id, self.settings.name, self._lease_us)
        self._unbroken_since = started
        self._leased_until = started + self.settings.lease_s

    def renew(self) -> None:
        """One beat. Raises `ProcessDead` when another process has declared this one dead."""
        started = self._clock.monotonic()
        with self._database.beats.single() as tx:
            until_us = self._store.renew(tx, self.id, self._lease_us)
        if until_us is None:
            self._leased_until = float("-inf")
            raise ProcessDead(f"process {self.id} was declared dead: its claims belong to others now")
        if started > self._leased_until or self._clock_was_set(until_us, started):
            self._unbroken_since = started
        self._until_us = until_us
        self._leased_until = started + self.settings.lease_s

    def stop(self) -> None:
        with self._database.beats.single() as tx:
            self._store.stop(tx, self.id)
        self._leased_until = float("-inf")

    @property
    def is_leased(self) -> bool:
        return self._clock.monotonic() < self._leased_until

    @property
    def may_declare_dead(self) -> bool:
        """Rule 3: only who has held its own lease for a full lease may say that another's ran out."""
        return self.is_leased and self._clock.monotonic() - self._unbroken_since >= self.settings.lease_s

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


def leave_at_once() -> None:
    """What a process does that finds itself declared dead: no clean-up, since nothing it holds is its own any more."""
    logger.critical("this process was declared dead by another; leaving at once")
    os._exit(EXIT_CODE_DEAD)


class Heartbeat(Service):
    """Renews the lease of this process."""

    name = "heartbeat"

    def __init__(self, process: Process, events: Events, on_dead: Callable[[], None] = leave_at_once) -> None:
        super().__init__(events)
        # After an outage it must be back within a lease, or another process that was faster would declare it dead.
        self.longest_pause_s = process.settings.heartbeat_s
        self._process = process
        self._on_dead = on_dead

    def run_once(self) -> Result:
        try:
            self._process.renew()
        except ProcessDead:
            self._on_dead()
            raise
        return Result(1, self._process.settings.heartbeat_s)


def record_start(log: EventLog, tx: Transaction, process: Process) -> None:
    log.record(
        tx, Event(EventKind.PROCESS_STARTED, process.id, data={"host": socket.gethostname(), "pid": os.getpid()})
    )


def record_stop(log: EventLog, tx: Transaction, process: Process) -> None:
    log.record(tx, Event(EventKind.PROCESS_STOPPED, process.id))
