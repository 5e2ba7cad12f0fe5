"""Deletes complaints that were settled long ago."""

from __future__ import annotations

from towpath.catalog.complaint_store import ComplaintStore
from towpath.clock import MICROS
from towpath.db import Database
from towpath.events import Events
from towpath.service import Result, Service
from towpath.settings import ComplaintSettings

MOST_PER_COMMIT = 1_000


class ComplaintJanitor(Service):
    """Runs in every process that answers requests; two at once only share the work."""

    name = "complaint janitor"

    def __init__(self, database: Database, settings: ComplaintSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._store = ComplaintStore(database)

    def run_once(self) -> Result:
        return Result(self.clean(), self._settings.janitor_s)

    def clean(self) -> int:
        """Delete all that is past its time; returns how many."""
        if self._settings.retention_s is None:
            return 0
        before_us, total = self._database.now() - int(self._settings.retention_s * MICROS), 0
        while True:
            with self._database.single() as tx:
                deleted = self._store.forget(tx, before_us, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total
