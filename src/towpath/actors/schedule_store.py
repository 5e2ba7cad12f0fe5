"""The table `actor_schedule`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from towpath.actors.schedule import Outcome, Schedule
from towpath.actors.schedule_rhythm import Daily, Interval, Rhythm, Since, Window
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.text import storable
from towpath.errors import ScheduleExists, UnknownSchedule

NO_RHYTHM = dict.fromkeys(("every_s", "since", "hour", "minute", "to_hour", "zone"))


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


def _outcome(last_run: str | None, state: str | None, was_let_in: bool) -> Outcome:
    if last_run is None:
        return Outcome.NONE
    match state:
        case None:
            return Outcome.FORGOTTEN
        case "NEW":
            return Outcome.SENT
        case "ACK":
            return Outcome.RUNNING
        case "OK":
            return Outcome.ENDED
    return Outcome.FAILED if was_let_in else Outcome.REFUSED


def _warning(actor: str, is_enabled: int | None) -> str | None:
    if is_enabled is None:
        return f"no process has known an actor {actor!r} so far; it runs when one does"
    if not is_enabled:
        return f"{actor} is disabled; `towpath actor enable {actor}` lets it run"
    return None
