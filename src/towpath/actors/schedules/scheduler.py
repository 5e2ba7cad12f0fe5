"""The scheduler, which starts actors by the clock, and its table `actor_schedule`.

Every host runs a scheduler; a run that is due is started by one of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from towpath.actors.definition import Definition
from towpath.actors.instance import inbox_of
from towpath.actors.instance_store import ActorContext
from towpath.actors.schedules.model import Daily, Interval, Rhythm, Schedule, ScheduleOutcome, Since, Window, after_run
from towpath.actors.turn import ActorStart, send_start
from towpath.core import crash
from towpath.core.clock import MICROS, to_datetime
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.errors import BadValue, Refused, ScheduleExists, UnknownSchedule
from towpath.queue.outbox import Outbox
from towpath.queue.payload import new_id

NO_RHYTHM = dict.fromkeys(("every_s", "since", "hour", "minute", "to_hour", "zone"))
SCHEDULE = "towpath.schedule"  # the header of a start that says which schedule has sent it
MOST_AT_ONCE = 100
LOOK_AGAIN_US = 3600 * MICROS  # after a schedule whose time zone is not known here


class Scheduler(Service):
    """Sends the starts that are due, for the actors that this process knows; starts for others would only pile up."""

    name = "schedules"

    def __init__(self, parts: ActorContext, definitions: Mapping[str, Definition]) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._definitions = definitions
        self._schedules = ScheduleStore(parts.database)
        self._outbox = Outbox(parts.queue, "schedules")

    def run_once(self) -> RoundResult:
        parts = self._parts
        with parts.database.glance() as tx:
            disabled = parts.instances.disabled(tx)
        actors = self._definitions.keys() - disabled  # what is due of a disabled one waits, and is made up for once
        with parts.database.glance() as tx:
            due = list(self._schedules.due(tx, actors, MOST_AT_ONCE))
        done = sum(self._take(schedule) for schedule in due if not self.is_stopping)
        return RoundResult(done, 0.0 if done else self._rest_s(actors))

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
        if schedule.outcome is ScheduleOutcome.SENT:
            return "its last start still waits to be let in"
        instance = self._parts.instances.read(tx, inbox_of(schedule.actor, schedule.instance))
        if instance is not None and instance.is_live:
            return f"{instance.name} runs already, it is {instance.phase} in {instance.step}"
        return None

    def _send(self, tx: Transaction, schedule: Schedule, run_id: str) -> None:
        function = schedule.state or self._definitions[schedule.actor].first.name
        start = ActorStart(schedule.actor, schedule.instance, function, schedule.payload)
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


class ScheduleStore:
    """Reads and moves schedules inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.actors", "schedules", database.dialect, fragments="instances")

    def insert(self, tx: Transaction, schedule: Schedule) -> None:
        if not tx.run(self._sql["insert_schedule"], {**_params(schedule), "made_at": schedule.made_us}):
            raise ScheduleExists(schedule.name)

    def change(self, tx: Transaction, schedule: Schedule) -> None:
        """Set all that a person may change. The caller has locked it."""
        params = {key: value for key, value in _params(schedule).items() if key != "actor"}
        if not tx.rows(self._sql["change_schedule"], params):
            raise UnknownSchedule(schedule.name)

    def delete(self, tx: Transaction, name: str) -> None:
        if not tx.rows(self._sql["delete_schedule"], {"name": name}):
            raise UnknownSchedule(name)

    def lock(self, tx: Transaction, name: str) -> Schedule:
        """One of them, which nobody else changes until the transaction ends."""
        tx.rows(self._sql["lock_schedule"], {"name": name})
        return self.read(tx, name)

    def read(self, tx: Transaction, name: str) -> Schedule:
        rows = tx.rows(self._sql["read_schedule"], {"name": name})
        if not rows:
            raise UnknownSchedule(name)
        return _schedule(rows[0])

    def list(self, tx: Transaction, actor: str | None) -> Iterable[Schedule]:
        return map(_schedule, tx.rows(self._sql["list_schedules"], {"actor": actor}))

    def due(self, tx: Transaction, actors: Collection[str], limit: int) -> Iterable[Schedule]:
        params = {"actors": json.dumps(sorted(actors)), "limit": limit}
        return map(_schedule, tx.rows(self._sql["due_schedules"], params))

    def next_due_us(self, tx: Transaction, actors: Collection[str]) -> int | None:
        due: int | None = tx.rows(self._sql["next_due"], {"actors": json.dumps(sorted(actors))})[0][0]
        return due

    def take_run(self, tx: Transaction, schedule: Schedule, run_id: str, at_us: int, next_us: int) -> bool:
        """Whether the run is the caller's to start."""
        params = {"name": schedule.name, "seen_at": schedule.next_us, "at": at_us, "run_id": run_id, "next_at": next_us}
        return bool(tx.rows(self._sql["take_run"], params))

    def skip_run(self, tx: Transaction, schedule: Schedule, reason: str, next_us: int) -> bool:
        """Whether it was the caller's to skip."""
        params = {"name": schedule.name, "seen_at": schedule.next_us, "reason": storable(reason), "next_at": next_us}
        return bool(tx.rows(self._sql["skip_run"], params))


def _params(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "actor": schedule.actor,
        "instance": schedule.instance,
        "step": schedule.state,
        "payload": json.dumps(schedule.payload),
        "is_enabled": int(schedule.is_enabled),
        "next_at": schedule.next_us,
        **NO_RHYTHM,
        **_written(schedule.rhythm),
    }


def _written(rhythm: Rhythm) -> dict[str, Any]:
    match rhythm:
        case Interval(every_s, since):
            return {"kind": "interval", "every_s": float(every_s), "since": str(since)}
        case Daily(hour, minute, zone):
            return {"kind": "daily", "hour": hour, "minute": minute, "zone": zone}
        case Window(from_hour, to_hour, zone):
            return {"kind": "window", "hour": from_hour, "to_hour": to_hour, "zone": zone}


def _schedule(row: Row) -> Schedule:
    name, actor, instance, step, payload, kind, every_s, since, hour, minute, to_hour, zone, *rest = row
    is_enabled, made_us, next_us, last_us, last_run, skipped, skip_reason, *known = rest
    state, was_let_in, reason, is_actor_enabled = known
    rhythm: Rhythm
    match kind:
        case "interval":
            rhythm = Interval(every_s, Since(since))
        case "daily":
            rhythm = Daily(hour, minute, zone)
        case _:
            rhythm = Window(hour, to_hour, zone)
    return Schedule(
        name,
        actor,
        instance,
        step,
        json.loads(payload),
        rhythm,
        bool(is_enabled),
        made_us,
        next_us,
        last_us,
        last_run,
        skipped,
        skip_reason,
        _outcome(last_run, state, bool(was_let_in)),
        reason,
        _warning(actor, is_actor_enabled),
    )


def _outcome(last_run: str | None, state: str | None, was_let_in: bool) -> ScheduleOutcome:
    if last_run is None:
        return ScheduleOutcome.NONE
    match state:
        case None:
            return ScheduleOutcome.FORGOTTEN
        case "NEW":
            return ScheduleOutcome.SENT
        case "ACK":
            return ScheduleOutcome.RUNNING
        case "OK":
            return ScheduleOutcome.ENDED
    return ScheduleOutcome.FAILED if was_let_in else ScheduleOutcome.REFUSED


def _warning(actor: str, is_enabled: int | None) -> str | None:
    if is_enabled is None:
        return f"no process has known an actor {actor!r} so far; it runs when one does"
    if not is_enabled:
        return f"{actor} is disabled; `towpath actor enable {actor}` lets it run"
    return None
