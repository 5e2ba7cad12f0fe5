"""Deletes what is past its retention time: finished messages by state, events, rows of ended processes."""

from __future__ import annotations

from towpath import crash
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.events import Event, EventKind
from towpath.queue.parts import Parts
from towpath.queue.state import MessageState
from towpath.service import Result, Service

MOST_PER_COMMIT = 2_000


class Janitor(Service):
    """Runs in every process that claims; two at once only share the work."""

    name = "janitor"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.events)
        self._parts = parts

    def run_once(self) -> Result:
        done = self.clean()
        return Result(sum(done.values()), self._parts.settings.janitor_s)

    def clean(self) -> dict[str, int]:
        """Delete all that is past its time; returns how much of what."""
        retention = self._parts.settings.retention
        done = {
            state.lower(): self._clean_messages(state, age_s)
            for state, age_s in (
                (MessageState.OK, retention.ok_s),
                (MessageState.ERR, retention.err_s),
                (MessageState.DEAD, retention.dead_s),
            )
        }
        done["events"] = self._clean_events(retention.event_s)
        done["processes"] = self._clean_processes(retention.process_s)
        return done

    def _older_than_us(self, age_s: float) -> int:
        return self._parts.database.now() - int(age_s * MICROS)

    def _clean_messages(self, state: MessageState, age_s: float | None) -> int:
        if age_s is None:
            return 0
        parts, limit_us, total = self._parts, self._older_than_us(age_s), 0
        while True:
            with parts.database.transaction() as tx:
                deleted = parts.messages.delete_finished(tx, state, limit_us, MOST_PER_COMMIT)
                if deleted:
                    data = {"state": state, "count": deleted, "older_than_s": age_s}
                    parts.event_log.record(tx, Event(EventKind.MESSAGES_CLEANED, "queue", data=data))
                    crash.here(CrashPoint.CLEAN_BEFORE_COMMIT)
            total += deleted
            if deleted:
                crash.here(CrashPoint.CLEAN_AFTER_COMMIT)
            if deleted < MOST_PER_COMMIT:
                return total

    def _clean_events(self, age_s: float | None) -> int:
        if age_s is None:
            return 0
        limit_us, total = self._older_than_us(age_s), 0
        while True:
            with self._parts.database.transaction() as tx:
                deleted = self._parts.event_log.forget(tx, limit_us, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT:
                return total

    def _clean_processes(self, age_s: float | None) -> int:
        if age_s is None:
            return 0
        limit_us = self._older_than_us(age_s)
        with self._parts.database.beats.single() as tx:
            return self._parts.processes.forget(tx, limit_us)
