"""What a spawner asks and does about its process, for one instance: looking at it, ending it, and what it held."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from towpath.actors.instance import inbox_of
from towpath.actors.spawned import Spawned, SpawnedStore, Waiting
from towpath.actors.spawned_log import SpawnedLog
from towpath.actors.spawned_patience import patiently
from towpath.actors.spawning import Child, Children, Life
from towpath.actors.spawning_life import is_here, is_running, send_signal
from towpath.actors.turn import Turn
from towpath.clock import MICROS
from towpath.db import Transaction
from towpath.db.text import storable
from towpath.errors import IllegalMove, UnknownMessage
from towpath.events import Event, EventKind
from towpath.queue.caretaker import Caretaker
from towpath.queue.state import Move

BOOT_S = 60.0
LEAVE_S = 60.0
KILL_S = 2.0
LONGEST_REASON = 2_000
STEP_S = 0.05
AWAY_S = 60.0
MOST_CLAIMS = 500


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a living process is to end, and how long it may take about it."""

    text: str
    grace_s: float
    is_failure: bool = False  # it never came so far as to take a message


class Desk:
    """One instance of a spawner, in one turn."""

    def __init__(self, turn: Turn, children: Children, grace_s: float) -> None:
        self.spawner = inbox_of(turn.actor, turn.instance)
        self.store = SpawnedStore(turn.parts.database)
        self._turn = turn
        self._parts = turn.parts
        self._children = children
        self._grace_s = grace_s
        self._log = SpawnedLog(turn.parts.settings.directory, turn.actor, turn.instance)

    @property
    def name(self) -> str:
        return f"{self._turn.actor}:{self._turn.instance}"

    def row(self) -> Spawned | None:
        with self._parts.database.glance() as tx:
            return self.store.read(tx, self.spawner)

    def first_waiting(self, inbox: str) -> Waiting | None:
        with self._parts.database.glance() as tx:
            return self.store.first_waiting(tx, inbox)

    # Looking

    def life(self, row: Spawned, launch_id: str) -> Life:
        """As well as it can be known here: by ourselves, by this machine, or by its lease."""
        own = self._own(row, launch_id)
        if own is not None:
            return own.life()
        if row.pid is not None and is_here(row.machine):
            return Life(is_running(row.pid, launch_id))
        return Life(None if row.process_id is None else self._has_lease(row.process_id))

    def reason_to_end(self, row: Spawned) -> Reason | None:
        """Why a process that lives should not. One that has died since says by the next look how it ended."""
        reason = self._reason(row)
        return None if reason is None or self._has_just_gone(row) else reason

    def _has_just_gone(self, row: Spawned) -> bool:
        """Others may have found out before us, and have taken from it what it had."""
        if row.pid is None or row.launch_id is None or not is_here(row.machine):
            return False
        return not is_running(row.pid, row.launch_id)

    def _reason(self, row: Spawned) -> Reason | None:
        if row.stop is not None:
            return Reason(row.stop, self._grace_s)
        if row.ended_us is not None:  # it is about to be gone
            return Reason("it did not come to its end", 0.0) if self._is_past(row.ended_us, LEAVE_S) else None
        if row.process_id is None:
            is_late = self._is_past(row.launched_us, BOOT_S)
            return Reason(f"it was not there within {BOOT_S:g} s", self._grace_s, is_failure=True) if is_late else None
        if not self._has_lease(row.process_id):
            return Reason("it was declared dead", 0.0)
        if row.message_id is not None and row.launch_id is not None:
            return self._taken_away(row.launch_id, row.process_id)
        return None

    def _taken_away(self, launch_id: str, process_id: str) -> Reason | None:
        """Whether somebody else has moved the message that it works on; by one view, since it moves it too."""
        with self._parts.database.read() as tx:
            row = self.store.read(tx, self.spawner)
            if row is None or row.launch_id != launch_id or row.message_id is None:
                return None
            try:
                message = self._parts.queue.messages.read(tx, row.message_id)
            except UnknownMessage:
                return Reason(f"its message {row.message_id} was deleted", self._grace_s)
        if message.owner == process_id and message.state == "ACK":
            return None
        return Reason(f"its message {message.id} is {message.state}: {message.reason}", self._grace_s)

    def _is_past(self, since_us: int, seconds: float) -> bool:
        return self._parts.database.now() > since_us + seconds * MICROS

    def _has_lease(self, process_id: str) -> bool:
        with self._parts.database.beats.glance() as tx:
            return process_id in self._parts.processes.living(tx, [process_id])

    # Ending

    def signal(self, row: Spawned, launch_id: str, which: signal.Signals) -> None:
        """To the process and all that it has started, if it is on this machine; elsewhere its row reaches it."""
        own = self._own(row, launch_id)
        if own is not None:
            send_signal(own.pid, launch_id, which, is_there=bool(own.life().is_alive))
        elif row.pid is not None and is_here(row.machine):
            send_signal(row.pid, launch_id, which)

    def _own(self, row: Spawned, launch_id: str) -> Child | None:
        """The process, if it was started here and no other has shown itself in its place."""
        own = self._children.find(launch_id)
        return own if own is not None and (row.process_id is None or row.pid == own.pid) else None

    def told(self, row: Spawned, launch_id: str, life: Life, why: str | None) -> str:
        """How a process ended, with the end of what it wrote."""
        how = life.how if why is None else f"was stopped, since {why}"
        is_told = why is None and row.ended is None and (row.machine is None or is_here(row.machine))
        output = self._log.tail(launch_id) if is_told else ""
        return storable(f"its process {how}" + (f"; the end of its output: {output}" if output else ""))

    def free_claims(self, row: Spawned, reason: str) -> bool:
        """Let what a process held wait again, or be given up when it was the last attempt; whether it held anything."""
        if row.process_id is None:
            return False
        return Caretaker(self._parts.queue).free_claims_of(row.process_id, reason[:LONGEST_REASON]) > 0

    def end_in_commit(self, launch_id: str, told: str, *, is_unusual: bool) -> None:
        """With the next state: no process of this launch may work any more."""

        def end(tx: Transaction) -> None:
            self.store.end(tx, self.spawner, launch_id, told)
            if is_unusual:
                data = {"launch": launch_id}
                self._parts.event_log.record(tx, Event(EventKind.SPAWNED_ENDED, self.name, why=told, data=data))

        self._turn.in_commit(end)
        self._children.forget(launch_id)

    def give_up_in_commit(self, message_id: str, reason: str) -> None:
        """With the next state: nobody shall try this message again, unless a person says so."""
        self._turn.in_commit(lambda tx: self._give_up(tx, message_id, reason))

    def _give_up(self, tx: Transaction, message_id: str, reason: str) -> None:
        with suppress(IllegalMove, UnknownMessage):  # somebody was faster
            reply_to = self._parts.queue.messages.move(tx, message_id, Move.KILL, reason[:LONGEST_REASON])
            event = Event(EventKind.MESSAGE_GIVEN_UP, message_id, why=reason, data={"spawner": self.name})
            self._parts.event_log.record(tx, event)
            self._parts.queue.ring_after(tx, reply_to)

    def abandon(self, reason: str) -> None:
        """The run is over: its process ends, and what that worked on is DEAD. Takes up to the grace time."""
        row = patiently(lambda: self._condemn(reason), AWAY_S)
        if row is None or row.launch_id is None:
            return
        launch_id = row.launch_id
        for which, wait_s in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, KILL_S)):
            self.signal(row, launch_id, which)
            self._wait_for_end(row, launch_id, wait_s)
        self.end_in_commit(launch_id, f"its process was stopped, since {reason}", is_unusual=True)

    def _wait_for_end(self, row: Spawned, launch_id: str, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while self.life(row, launch_id).is_alive and time.monotonic() < deadline:
            time.sleep(STEP_S)

    def _condemn(self, reason: str) -> Spawned | None:
        with self._parts.database.transaction() as tx:
            row = self.store.read(tx, self.spawner)
            if row is not None and row.launch_id is not None:
                self.store.ask_stop(tx, self.spawner, row.launch_id, reason)
                for held in self._parts.queue.messages.claims_of(tx, row.process_id or "", MOST_CLAIMS):
                    if held.inbox == row.inbox:
                        self._give_up(tx, held.id, reason)
        return row
