"""Holds the pilot of a stage: moves it, tells of it, and writes it down for everybody to see.

Unusual moves are written at once. Those from batch to batch happen many times a second; they are written when the last
writing was long enough ago, so what people see is at most that old.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.events import Events
from towpath.flow.pilot import Pilot, PilotState, Trouble, Waits, is_memorable, move_event
from towpath.flow.stage_store import StageStore
from towpath.settings import FlowSettings

_ORDER = (PilotState.EXTRACT, PilotState.TRANSFORM, PilotState.LOAD, PilotState.ERRORS)


class Helm:
    """The pilot of one stage in the process that runs it. Safe to use from several threads."""

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
        pilot: Pilot,
    ) -> None:
        self._database = database
        self._stages = stages
        self._events = events
        self._event_log = event_log
        self._sample_s = settings.sample_s
        self._waits = Waits.of(settings, random.Random())  # noqa: S311 - spreads waits, hides nothing
        self._which = (flow, stage, owner)
        self._lock = threading.RLock()
        self._written_at = 0.0
        self.pilot = pilot

    @property
    def state(self) -> PilotState:
        return self.pilot.state

    def start(self) -> None:
        """A process begins to run the stage."""
        self._turn(lambda pilot, now: pilot.started(now))

    def reach(self, state: PilotState, batch_id: int | None = None) -> None:
        """Go on to a state of the batch's way, unless an earlier attempt at the batch was that far already."""
        with self._lock:
            if self.state in _ORDER and _ORDER.index(self.state) >= _ORDER.index(state):
                self.pilot = self.pilot if batch_id is None else self.pilot.with_batch(batch_id)
                return
            while self.state is not state:
                self._turn(lambda pilot, now: pilot.moved(_after(pilot.state), now, batch_id=batch_id))

    def move(self, state: PilotState) -> None:
        self._turn(lambda pilot, now: pilot.moved(state, now))

    def end_batch(self) -> None:
        self.move(PilotState.EXTRACT)

    def fail(self, trouble: Trouble) -> None:
        self._turn(lambda pilot, now: pilot.failed(trouble, now, self._waits))

    def hold(self, trouble: Trouble) -> None:
        self._turn(lambda pilot, now: pilot.held(trouble, now, self._waits))

    def resume(self) -> None:
        self._turn(lambda pilot, now: pilot.resumed(now))

    def rest(self, state: PilotState, reason: str) -> None:
        rests = {PilotState.PAUSED: Pilot.paused, PilotState.STOPPED: Pilot.stopped, PilotState.HALTED: Pilot.halted}
        if self.state is not state:
            self._turn(lambda pilot, now: rests[state](pilot, reason, now))

    def is_due(self) -> bool:
        return self.pilot.is_due(self._database.now())

    def write(self) -> None:
        """Write down where the pilot is, if that has not just been done."""
        with self._lock:
            if time.monotonic() - self._written_at >= self._sample_s:
                self._save(self.pilot, None)

    def _turn(self, step: Callable[[Pilot, int], Pilot]) -> None:
        with self._lock:
            before = self.pilot
            after = step(before, self._database.now())
            if after is before:
                return
            if is_memorable(before, after):
                self._save(after, before)
            else:
                self._events.publish(move_event(self._which[0], self._which[1], before, after))
            self.pilot = after

    def _save(self, pilot: Pilot, before: Pilot | None) -> None:
        flow, stage, owner = self._which
        with self._database.transaction() as tx:
            self._stages.save_pilot(tx, flow, stage, owner, pilot)
            if before is not None:
                self._event_log.record(tx, move_event(flow, stage, before, pilot))
        self._written_at = time.monotonic()


def _after(state: PilotState) -> PilotState:
    return _ORDER[_ORDER.index(state) + 1]
