"""All duties, read again only when something about them has changed: a peer looks at them several times a second."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from towpath.clock import Clock
from towpath.db import Database
from towpath.supervision.duty import Duty
from towpath.supervision.duty_store import DutyStore

READ_AGAIN_S = 5.0  # also when nothing seems to have changed: a sum may be the same by chance


class DutyCache:
    """Shared by the services of a peer."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._store = DutyStore(database)
        self._lock = threading.Lock()
        self._version: tuple[int, ...] | None = None
        self._read_at = float("-inf")
        self._duties: Sequence[Duty] = ()

    def all(self) -> Sequence[Duty]:
        """As they are now. Raises when the database is away."""
        with self._lock:
            now = self._clock.monotonic()
            with self._database.glance() as tx:
                version = self._store.version(tx)
            if version != self._version or now - self._read_at > READ_AGAIN_S:
                with self._database.glance() as tx:
                    self._duties = self._store.all(tx)
                self._version, self._read_at = version, now
            return self._duties

    @property
    def last(self) -> Sequence[Duty]:
        """As they were last read."""
        return self._duties
