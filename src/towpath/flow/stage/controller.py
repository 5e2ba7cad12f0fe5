"""Holds the state machine of a stage: moves it, tells of it, and writes it down for everybody to see.

Unusual moves are written at once. Those from batch to batch happen many times a second; they are written when the last
writing was long enough ago, so what people see is at most that old.

What a person has asked for is settled in the transaction that writes the move which it asked for. A process that dies
before leaves both undone, and the next one does them.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from towpath.core.clock import MICROS
from towpath.core.events import Event, Events
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.errors import CommitUnknown, DatabaseUnavailable
from towpath.flow.stage.machine import RetryWaits, StageMachine, StageTrouble, is_memorable, move_event
from towpath.flow.stage.states import StageCommand, StageState
from towpath.flow.stage.store import StageStore
from towpath.settings import FlowSettings

logger = logging.getLogger(__name__)

MOST_UNTOLD = 100  # moves that happen while the database is away
_ORDER = (StageState.EXTRACT, StageState.TRANSFORM, StageState.LOAD, StageState.ERRORS)
T = TypeVar("T")


class StageController:
    """The state machine of one stage in the process that runs it. Safe to use from several threads."""

    def __init__(
        self,
        database: Database,
        stages: StageStore,
        events: Events,
        event_log: EventLog,
        settings: FlowSettings,
        flow: str,
        stage: str,
        owner: str,
        machine: StageMachine,
    ) -> None:
        self._database = database
        self._stages = stages
        self._events = events
        self._event_log = event_log
        self._sample_s = settings.sample_s
        self._waits = RetryWaits.of(settings, random.Random())  # noqa: S311 - spreads waits, hides nothing
        self._which = (flow, stage, owner)
        self._lock = threading.RLock()
        self._written_at = 0.0
        self._time = (machine.since, time.monotonic())
        self._untold: deque[Event] = deque(maxlen=MOST_UNTOLD)
        self._granted: StageCommand | None = None  # done, and to be settled with the next writing
        self.machine = machine

    @property
    def state(self) -> StageState:
        return self.machine.state

    def start(self) -> None:
        """A process begins to run the stage."""
        self._turn(lambda machine, now: machine.started(now))

    def reach(self, state: StageState, batch_id: int | None = None) -> None:
        """Go on to a state of the batch's way, unless an earlier attempt at the batch was that far already."""
        with self._lock:
            if self.state in _ORDER and _ORDER.index(self.state) >= _ORDER.index(state):
                self.machine = self.machine if batch_id is None else self.machine.with_batch(batch_id)
                return
            while self.state is not state:
                self._turn(lambda machine, now: machine.moved(_after(machine.state), now, batch_id=batch_id))

    def move(self, state: StageState) -> None:
        self._turn(lambda machine, now: machine.moved(state, now))

    def fail(self, trouble: StageTrouble) -> None:
        self._turn(lambda machine, now: machine.failed(trouble, now, self._waits))

    def hold(self, trouble: StageTrouble) -> None:
        self._turn(lambda machine, now: machine.held(trouble, now, self._waits))

    def resume(self, wish: StageCommand | None = None) -> None:
        self._turn(lambda machine, now: machine.resumed(now), wish)

    def rest(self, state: StageState, reason: str, wish: StageCommand | None = None) -> None:
        if self.state is not state:
            self._turn(lambda machine, now: machine.rested(state, reason, now), wish)
        elif wish is not None:
            self.settle(wish)

    def settle(self, wish: StageCommand) -> None:
        """What was wanted is so already, or cannot be."""
        with self._lock:
            self._granted = wish
            self._save()

    def begin_anew(self, reason: str, wish: StageCommand, change: Callable[[Transaction], T]) -> T:
        """Go to `configure` from any state, in one transaction with a change that a person has asked for."""
        with self._lock:
            now, before = self._now(), self.machine
            rested = before if before.state is StageState.STOPPED else before.rested(StageState.STOPPED, reason, now)
            after = rested.resumed(now)
            self._granted = wish
            moves = [(before, rested), (rested, after)] if rested is not before else [(before, after)]
            told = [move_event(*self._which[:2], one, other) for one, other in moves]
            try:
                with self._database.transaction() as tx:
                    changed = change(tx)
                    self._write(tx, after, told)
            except CommitUnknown:
                self.machine = after  # it looks at its row again when it configures itself
                raise
            self._untold.clear()
            self._granted, self.machine = None, after
            return changed

    def is_due(self) -> bool:
        return self.machine.is_due(self._now())

    def write(self) -> None:
        """Write down where the stage is, if that has not just been done."""
        with self._lock:
            if time.monotonic() - self._written_at >= self._sample_s:
                self._save()

    def _turn(self, step: Callable[[StageMachine, int], StageMachine], wish: StageCommand | None = None) -> None:
        with self._lock:
            before = self.machine
            self._granted = wish or self._granted
            after = step(before, self._now())
            if after is before:
                return
            self.machine = after
            event = move_event(*self._which[:2], before, after)
            if is_memorable(before, after) or wish is not None:
                self._untold.append(event)
                self._save()
            else:
                self._events.publish(event)
                if after.is_waiting:  # a probe has failed: others want to see how often, and when the next one is
                    self._save()

    def _save(self) -> None:
        """Write the state and what is to be told of it. While the database is away both wait for the next time."""
        try:
            with self._database.transaction() as tx:
                self._write(tx, self.machine)
        except DatabaseUnavailable:
            logger.warning("%s/%s is %s; the database is away and does not know", *self._which[:2], self.state)
        else:
            self._untold.clear()
            self._granted = None
        self._written_at = time.monotonic()

    def _write(self, tx: Transaction, machine: StageMachine, more: Sequence[Event] = ()) -> None:
        self._stages.save_machine(tx, *self._which, machine)
        for event in (*self._untold, *more):
            self._event_log.record(tx, event)
        if self._granted is not None:
            self._stages.settle_wish(tx, *self._which, self._granted)

    def _now(self) -> int:
        """The database's time; while it is away, as it would be by this machine's clock."""
        elapsed = time.monotonic()
        try:
            self._time = (self._database.now(), elapsed)
        except DatabaseUnavailable:
            then, at = self._time
            return then + round((elapsed - at) * MICROS)
        return self._time[0]


def _after(state: StageState) -> StageState:
    return _ORDER[_ORDER.index(state) + 1]
