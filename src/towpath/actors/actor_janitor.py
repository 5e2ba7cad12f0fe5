"""Deletes instances that a call has made, when they came to rest long ago. One with a name that a person gave stays."""

from __future__ import annotations

import json

from towpath import crash
from towpath.actors.instance import REPLY
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.db import Queries, Transaction
from towpath.events import Event, EventKind
from towpath.service import Result, Service

MOST_PER_COMMIT = 500


class ActorJanitor(Service):
    """Runs in every host; two at once only share the work. Messages are the queue's janitor's to delete."""

    name = "actor janitor"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._sql = Queries("towpath.actors", "actor_janitor", parts.database.dialect, fragments="instances")

    def run_once(self) -> Result:
        return Result(sum(self.clean().values()), self._parts.queue.settings.janitor_s)

    def clean(self) -> dict[Phase, int]:
        """Delete all that is past its time; returns how many instances of which phase."""
        settings = self._parts.settings
        ages_s = {Phase.ENDED: settings.retention_s, Phase.FAILED: settings.failed_retention_s}
        return {phase: self._clean(phase, age_s) for phase, age_s in ages_s.items() if age_s is not None}

    def _clean(self, phase: Phase, age_s: float) -> int:
        before_us, total = self._parts.database.now() - int(age_s * MICROS), 0
        while True:
            with self._parts.database.transaction() as tx:
                deleted = self._delete(tx, phase, before_us)
                if deleted:
                    self._parts.event_log.record(
                        tx, Event(EventKind.INSTANCES_CLEANED, "actors", data={phase: deleted})
                    )
                    crash.here(CrashPoint.FORGET_BEFORE_COMMIT)
            if deleted:
                crash.here(CrashPoint.FORGET_AFTER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total

    def _delete(self, tx: Transaction, phase: Phase, before_us: int) -> int:
        """The instance first, then its inbox, which who sends a start takes first: so the start is seen or waits."""
        params = {"phase": phase, "before": before_us, "limit": MOST_PER_COMMIT}
        at_rest = [row[0] for row in tx.rows(self._sql["instances_past_time"], params)]
        if not at_rest:
            return 0
        inboxes = [row[0] for row in tx.rows(self._sql["lock_inboxes"], {"inboxes": json.dumps(at_rest)})]
        self._parts.instances.forget_waits(tx, inboxes)
        rows = tx.rows(self._sql["delete_instances"], {"inboxes": json.dumps(inboxes)})
        gone = [row[0] for row in rows]
        tx.run(self._sql["delete_spawned"], {"inboxes": json.dumps(gone)})
        both = [*gone, *(f"{inbox}{REPLY}" for inbox in gone)]
        tx.run(self._sql["delete_inboxes"], {"inboxes": json.dumps(both)})
        return len(gone)
