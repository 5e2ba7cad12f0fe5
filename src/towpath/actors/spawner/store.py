"""The table `spawned`: what each instance of a spawner runs. The spawner and its process both write it.

The launch id decides who may. The spawner writes a new one before it starts a process, and a process shows itself with
the one that it was given: if that is not the row's any more, it ends before it has done anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypeVar

from towpath.actors.instance import MAIN, inbox_of
from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.errors import CommitUnknown, DatabaseUnavailable, ProcessDead

LONGEST_TEXT = 4_000
LONGEST_STAGE = 200
T = TypeVar("T")
AWAY_S = 600.0  # a process that cannot reach the database for longer ends: another one begins its work anew
PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Spawned:
    """The process that a spawner runs, or the last one that it ran."""

    spawner: str
    inbox: str
    launch_id: str | None
    machine: str | None
    pid: int | None
    process_id: str | None
    is_ready: bool
    done: int
    message_id: str | None
    attempt: int
    percent: float | None
    stage: str | None
    stop: str | None
    fault: str | None
    ended: str | None
    launched_us: int
    told_us: int | None
    ended_us: int | None

    @property
    def is_running(self) -> bool:
        """Whether a process of it lives, as far as its spawner has looked."""
        return self.launch_id is not None

    @property
    def launched_at(self) -> datetime:
        return to_datetime(self.launched_us)

    @property
    def told_at(self) -> datetime | None:
        """When the process last told how far it is."""
        return None if self.told_us is None else to_datetime(self.told_us)

    @property
    def ended_at(self) -> datetime | None:
        return None if self.ended_us is None else to_datetime(self.ended_us)

    @classmethod
    def from_row(cls, row: Row) -> Spawned:
        found = cls(*row)
        return replace(found, is_ready=bool(found.is_ready))


class WaitingMessage(NamedTuple):
    """A message that waits to be taken."""

    id: str
    failures: int  # how many processes have died over it


class SpawnedStore:
    """The `spawned` table, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.actors.spawner", "spawned", database.dialect)

    def read(self, tx: Transaction, spawner: str) -> Spawned | None:
        rows = tx.rows(self._sql["read_spawned"], {"spawner": spawner})
        return Spawned.from_row(rows[0]) if rows else None

    def first_waiting(self, tx: Transaction, inbox: str) -> WaitingMessage | None:
        """The message that would be given to who asks now."""
        rows = tx.rows(self._sql["first_waiting"], {"inbox": inbox})
        return WaitingMessage(*rows[0]) if rows else None

    # Written by the spawner

    def begin(self, tx: Transaction, spawner: str, inbox: str, launch_id: str) -> None:
        """Does nothing while another launch may work."""
        tx.run(self._sql["begin_launch"], {"spawner": spawner, "inbox": inbox, "launch_id": launch_id})

    def replace(self, tx: Transaction, spawner: str, old_id: str, launch_id: str) -> None:
        """Does nothing when a process of the old launch has shown itself."""
        tx.run(self._sql["replace_launch"], {"spawner": spawner, "old_id": old_id, "launch_id": launch_id})

    def note_pid(self, tx: Transaction, launch_id: str, pid: int, machine: str) -> None:
        tx.run(self._sql["note_pid"], {"launch_id": launch_id, "pid": pid, "machine": machine})

    def ask_stop(self, tx: Transaction, spawner: str, launch_id: str, reason: str) -> None:
        tx.run(self._sql["ask_stop"], {"spawner": spawner, "launch_id": launch_id, "reason": _short(reason)})

    def end(self, tx: Transaction, spawner: str, launch_id: str, ended: str) -> None:
        tx.run(self._sql["end_launch"], {"spawner": spawner, "launch_id": launch_id, "ended": _short(ended)})

    # Written by the process

    def show_up(self, tx: Transaction, spawner: str, launch_id: str, process_id: str, pid: int, machine: str) -> bool:
        """Whether the launch is still the one that may work."""
        who = {"spawner": spawner, "launch_id": launch_id, "process_id": process_id, "pid": pid, "machine": machine}
        return bool(tx.rows(self._sql["show_up"], who))

    def get_ready(self, tx: Transaction, launch_id: str, process_id: str) -> None:
        tx.run(self._sql["get_ready"], {"launch_id": launch_id, "process_id": process_id})

    def take_up(self, tx: Transaction, launch_id: str, process_id: str, message_id: str, attempt: int) -> bool:
        """Whether it may work on the message."""
        what = {"launch_id": launch_id, "process_id": process_id, "message_id": message_id, "attempt": attempt}
        return bool(tx.rows(self._sql["take_up"], what))

    def tell(self, tx: Transaction, launch_id: str, process_id: str, percent: float, stage: str) -> None:
        stage = storable(stage)[:LONGEST_STAGE]
        what = {"launch_id": launch_id, "process_id": process_id, "percent": percent, "stage": stage}
        tx.run(self._sql["tell"], what)

    def put_down(self, tx: Transaction, launch_id: str, process_id: str) -> None:
        tx.run(self._sql["put_down"], {"launch_id": launch_id, "process_id": process_id})

    def leave(self, tx: Transaction, launch_id: str, process_id: str, ended: str, fault: str | None = None) -> None:
        fault = None if fault is None else _short(fault)
        what = {"launch_id": launch_id, "process_id": process_id, "ended": _short(ended), "fault": fault}
        tx.run(self._sql["leave"], what)

    def is_wanted(self, tx: Transaction, launch_id: str, process_id: str, message_id: str | None) -> bool:
        """Whether it may work on, and on this message."""
        what = {"launch_id": launch_id, "process_id": process_id}
        which = {"message_id": message_id, "has_message": int(message_id is not None)}
        return bool(tx.rows(self._sql["is_wanted"], {**what, **which}))


def spawned_of(database: Database, actor: str, instance: str = MAIN) -> Spawned | None:
    """What an instance of a spawner runs, or has run; none when it has not run anything yet, or is no spawner."""
    with database.glance() as tx:
        return SpawnedStore(database).read(tx, inbox_of(actor, instance))


def patiently(act: Callable[[], T], limit_s: float = AWAY_S) -> T:
    """Do it, again and again while the database is away, but not for ever. It has to bear being done twice."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return act()
        except (DatabaseUnavailable, CommitUnknown, ProcessDead):
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def _short(text: str) -> str:
    """The end of what a process wrote says more than its beginning, and so does the end of a reason with it."""
    text = storable(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[:200]} … {text[-LONGEST_TEXT:]}"
