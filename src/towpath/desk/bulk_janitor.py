"""Deletes bulk jobs whose time is over, with their items: as long ago as settled cases are deleted."""

from __future__ import annotations

from towpath.clock import MICROS
from towpath.db import Database
from towpath.desk.job_store import JobStore
from towpath.events import Events
from towpath.service import Result, Service
from towpath.settings import DeskSettings

PORTION = 2_000  # items that are deleted at once
JOBS = 100


class BulkJanitor(Service):
    """Looks now and then. Items go first, in portions; a job goes when it has none left."""

    name = "bulk janitor"

    def __init__(self, database: Database, settings: DeskSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._jobs = JobStore(database)

    def run_once(self) -> Result:
        deleted = 0
        if self._settings.retention_s is not None:
            before = self._database.now() - round(self._settings.retention_s * MICROS)
            while (count := self._clean(before)) and not self.is_stopping:
                deleted += count
        return Result(deleted, self._settings.janitor_s)

    def _clean(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._jobs.forget_items(tx, before, PORTION) or self._jobs.forget(tx, before, JOBS)
