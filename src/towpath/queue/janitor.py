"""Deletes what is past its retention time: finished messages by state, events, rows of ended processes."""

from __future__ import annotations

from collections import Counter

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
        done = self._clean_messages()
        done["events"] = self._clean_events(retention.event_s)
        done["processes"] = self._clean_processes(retention.process_s)
        return done

    def _older_than_us(self, age_s: float) -> int:
        return self._parts.database.now() - int(age_s * MICROS)

    def _clean_messages(self) -> dict[str, int]:
        """Walk from the oldest message on, stretch by stretch, until they are too young to be past any time.

        Nothing else orders messages by age: an index for it would cost every message a page when it is finished.
        """
        parts, retention = self._parts, self._parts.settings.retention
        ages_s = {
            MessageState.OK: retention.ok_s,
            MessageState.ERR: retention.err_s,
            MessageState.DEAD: retention.dead_s,
        }
        before_us = {state: self._older_than_us(age_s) for state, age_s in ages_s.items() if age_s is not None}
        total: Counter[str] = Counter(dict.fromkeys(ages_s, 0))
        after = 0
        while before_us:
            with parts.database.transaction() as tx:
                span = parts.messages.next_span(tx, after, MOST_PER_COMMIT)
                if span is None:
                    break
                upto, oldest_us = span
                deleted = parts.messages.delete_in_span(tx, after, upto, before_us)
                if deleted:
                    parts.event_log.record(tx, Event(EventKind.MESSAGES_CLEANED, "queue", data=dict(deleted)))
                    crash.here(CrashPoint.CLEAN_BEFORE_COMMIT)
            if deleted:
                crash.here(CrashPoint.CLEAN_AFTER_COMMIT)
            total += deleted
            after = upto
            if oldest_us >= max(before_us.values()) or self.is_stopping:
                break
        return {state.lower(): total[state] for state in ages_s}

    def _clean_events(self, age_s: float | None) -> int:
        if age_s is None:
            return 0
        limit_us, total = self._older_than_us(age_s), 0
        while True:
            with self._parts.database.transaction() as tx:
                deleted = self._parts.event_log.forget(tx, limit_us, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total

    def _clean_processes(self, age_s: float | None) -> int:
        if age_s is None:
            return 0
        limit_us = self._older_than_us(age_s)
        with self._parts.database.beats.single() as tx:
            return self._parts.processes.forget(tx, limit_us)
