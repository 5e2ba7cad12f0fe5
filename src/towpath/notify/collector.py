"""Collecting notices for a while, and handing them over to the queue together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from towpath import crash
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.db import Database
from towpath.events import Events
from towpath.notify.courier import FUNCTION, inbox_of
from towpath.notify.digest import digest
from towpath.notify.notice_store import NoticeStore
from towpath.queue import Outbox
from towpath.service import Result, Service
from towpath.settings import NotifySettings

MOST_PER_COMMIT = 1_000
LONGEST_REST_S = 2.0
SHORTEST_REST_S = 0.05
CLEANED_EVERY_S = 300.0
TTL_S = 3 * 86400.0  # a target that was taken out of the settings: nobody will take its messages


class Collector(Service):
    """Ends the window of notices. Any number may run: handing over is one guarded statement."""

    name = "notices"

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        settings: NotifySettings,
        kinds: Mapping[str, Sequence[str]],
        events: Events,
    ) -> None:
        super().__init__(events)
        self._database = database
        self._outbox = outbox
        self._settings = settings
        self._kinds = kinds  # target → what it wants to hear of
        self._store = NoticeStore(database)
        self._cleaned = 0.0

    def run_once(self) -> Result:
        self._clean_now_and_then()
        left_s = self._seconds_left()
        if left_s is None:
            return Result(0, LONGEST_REST_S)
        if left_s > 0:
            return Result(0, min(max(left_s, SHORTEST_REST_S), LONGEST_REST_S))
        return Result(self.hand_over(), 0)

    def hand_over(self) -> int:
        """Hand over what waits, whether its window has ended or not; returns how many notices."""
        with self._database.transaction() as tx:
            found = self._store.hand_over(tx, MOST_PER_COMMIT)
            for target, kinds in self._kinds.items():
                told = digest(found, kinds)
                if told is not None:
                    self._outbox.notice(inbox_of(target), FUNCTION, told, ttl_s=TTL_S, tx=tx)
            if found:
                crash.here(CrashPoint.NOTICES_BEFORE_COMMIT)
        if found:
            crash.here(CrashPoint.NOTICES_AFTER_COMMIT)
        return len(found)

    def _seconds_left(self) -> float | None:
        """Until the window ends: after its first notice, and after the window before; none when nothing waits."""
        with self._database.read() as tx:
            since_us = self._store.waiting_since_us(tx)
            last_us = self._store.last_handed_us(tx) if since_us is not None else None
        if since_us is None:
            return None
        begun_us = max(since_us, last_us or 0)
        return (begun_us - self._database.now()) / MICROS + self._settings.window_s

    def _clean_now_and_then(self) -> None:
        age_s = self._settings.retention_s
        if age_s is None or time.monotonic() < self._cleaned + CLEANED_EVERY_S:
            return
        self._cleaned = time.monotonic()
        older_than_us = self._database.now() - int(age_s * MICROS)
        while self._forget(older_than_us) == MOST_PER_COMMIT and not self.is_stopping:
            pass

    def _forget(self, older_than_us: int) -> int:
        with self._database.single() as tx:
            return self._store.forget(tx, older_than_us, MOST_PER_COMMIT)
