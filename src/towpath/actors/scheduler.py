"""Starts actors by the clock. Every host runs one, and a run that is due is started by one of them."""

from __future__ import annotations

from collections.abc import Mapping

from towpath import crash
from towpath.actors.definition import Definition
from towpath.actors.instance import inbox_of
from towpath.actors.parts import Parts
from towpath.actors.schedule import Outcome, Schedule, after_run
from towpath.actors.schedule_store import ScheduleStore
from towpath.actors.starting import Start, send_start
from towpath.clock import MICROS, to_datetime
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.errors import BadValue, Refused
from towpath.events import Event, EventKind
from towpath.queue.outbox import Outbox
from towpath.queue.payload import new_id
from towpath.service import Result, Service

SCHEDULE = "towpath.schedule"  # the header of a start that says which schedule has sent it
MOST_AT_ONCE = 100
LOOK_AGAIN_US = 3600 * MICROS  # after a schedule whose time zone is not known here


class Scheduler(Service):
    """Serves the actors that this process knows: starts for others would pile up until somebody does."""

    name = "schedules"

    def __init__(self, parts: Parts, definitions: Mapping[str, Definition]) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._definitions = definitions
        self._schedules = ScheduleStore(parts.database)
        self._outbox = Outbox(parts.queue, "schedules")

    def run_once(self) -> Result:
        parts = self._parts
        with parts.database.glance() as tx:
            disabled = parts.instances.disabled(tx)
        actors = self._definitions.keys() - disabled  # what is due of a disabled one waits, and is made up for once
        with parts.database.glance() as tx:
            due = list(self._schedules.due(tx, actors, MOST_AT_ONCE))
        done = sum(self._take(schedule) for schedule in due if not self.is_stopping)
        return Result(done, 0.0 if done else self._rest_s(actors))

    def _take(self, schedule: Schedule) -> bool:
        """Give it its turn, unless somebody else does: the start and the next time commit together."""
        with self._parts.database.transaction() as tx:
            is_ours = self._start(tx, schedule)
            if is_ours:
                crash.here(CrashPoint.SCHEDULE_BEFORE_COMMIT)
        if is_ours:
            crash.here(CrashPoint.SCHEDULE_AFTER_COMMIT)
        return is_ours

    def _start(self, tx: Transaction, schedule: Schedule) -> bool:
        now_us, run_id = self._parts.database.now(), new_id()
        try:
            next_us = after_run(schedule, now_us)
        except BadValue as error:
            return self._skip(tx, schedule, str(error), now_us + LOOK_AGAIN_US)
        try:
            reason = self._why_not(tx, schedule, now_us)
            if reason is not None:
                return self._skip(tx, schedule, reason, next_us)
            with tx.part():  # what cannot be sent is not started
                is_ours = self._schedules.take_run(tx, schedule, run_id, now_us, next_us)
                if is_ours:
                    self._send(tx, schedule, run_id)
            return is_ours
        except Refused as error:
            return self._skip(tx, schedule, f"it cannot be sent: {error}", next_us)

    def _why_not(self, tx: Transaction, schedule: Schedule, now_us: int) -> str | None:
        """What speaks against a run now. One that slips through is refused by the intake."""
        if not schedule.rhythm.may_run_at(to_datetime(now_us)):
            return "its window was over before a process was there to run it"
        if schedule.outcome is Outcome.SENT:
            return "its last start still waits to be let in"
        instance = self._parts.instances.read(tx, inbox_of(schedule.actor, schedule.instance))
        if instance is not None and instance.is_live:
            return f"{instance.name} runs already, it is {instance.phase} in {instance.step}"
        return None

    def _send(self, tx: Transaction, schedule: Schedule, run_id: str) -> None:
        function = schedule.state or self._definitions[schedule.actor].first.name
        start = Start(schedule.actor, schedule.instance, function, schedule.payload)
        headers = {SCHEDULE: schedule.name}
        send_start(self._parts, tx, self._outbox, start, message_id=run_id, wants_answer=False, headers=headers)

    def _skip(self, tx: Transaction, schedule: Schedule, reason: str, next_us: int) -> bool:
        if not self._schedules.skip_run(tx, schedule, reason, next_us):
            return False
        if not schedule.skipped:  # once, not every minute of a run that takes a day
            data = {"due": to_datetime(schedule.next_us or 0).isoformat(), "next": to_datetime(next_us).isoformat()}
            event = Event(EventKind.SCHEDULE_SKIPPED, schedule.name, why=reason, data=data)
            self._parts.event_log.record(tx, event)
        return True

    def _rest_s(self, actors: set[str]) -> float:
        with self._parts.database.glance() as tx:
            due_us = self._schedules.next_due_us(tx, actors)
        poll_s = self._parts.queue.settings.poll_s
        if due_us is None:
            return poll_s
        return min(max((due_us - self._parts.database.now()) / MICROS, 0.001), poll_s)
