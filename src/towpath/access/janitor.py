"""Deletes what is past its time: rows of the trail, answers to requests, failed log-ins, sessions and links."""

from __future__ import annotations

from collections.abc import Callable

from towpath.access.audit_store import AuditStore
from towpath.access.block_store import BlockStore
from towpath.access.request_store import RequestStore
from towpath.access.session_store import SessionStore
from towpath.access.throttle import Throttle
from towpath.clock import MICROS
from towpath.db import Database, Transaction
from towpath.events import Events
from towpath.service import Result, Service
from towpath.settings import AccessSettings

MOST_PER_COMMIT = 2_000


class AccessJanitor(Service):
    """Runs in every process that answers requests; two at once only share the work."""

    name = "access janitor"

    def __init__(self, database: Database, settings: AccessSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._audit = AuditStore(database)
        self._requests = RequestStore(database)
        self._throttle = Throttle(database, settings)
        self._sessions = SessionStore(database)
        self._blocks = BlockStore(database)

    def run_once(self) -> Result:
        return Result(sum(self.clean().values()), self._settings.janitor_s)

    def clean(self) -> dict[str, int]:
        """Delete all that is past its time; returns how much of what."""
        settings = self._settings
        ages_s = (settings.audit_retention_s, settings.request_retention_s, settings.block_retention_s)
        audit_us, request_us, block_us = (
            None if age_s is None else self._database.now() - int(age_s * MICROS) for age_s in ages_s
        )
        return {
            "audit": 0 if audit_us is None else self._all(lambda tx, most: self._audit.forget(tx, audit_us, most)),
            "requests": self._all(lambda tx, most: self._requests.forget(tx, request_us or 0, most)),
            "failures": self._all(self._throttle.forget),
            "sessions": self._all(self._sessions.forget),
            "links": self._all(self._sessions.forget_links),
            "blocks": 0 if block_us is None else self._all(lambda tx, most: self._blocks.forget(tx, block_us, most)),
        }

    def _all(self, forget: Callable[[Transaction, int], int]) -> int:
        total = 0
        while True:
            with self._database.single() as tx:
                deleted = forget(tx, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total
