"""The services that deliver notices: the collector hands them to the queue, a courier for each target delivers them.

The first notice opens a window; at its end all that have come go out as one message to each target.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import DatabaseError, NotDelivered
from towpath.notify.channels import Channel
from towpath.notify.model import Digest, NoticeStore, digest
from towpath.queue import Outbox
from towpath.queue.model import GiveBack, Message
from towpath.settings import NotifySettings

FUNCTION = "deliver"
MESSAGE = "message"  # in the data of an event: its id
FIRST_PAUSE_S = 5.0  # between tries of a delivery
LONGEST_PAUSE_S = 3600.0
LONGEST_REST_S = 2.0  # between looks at what waits
SHORTEST_REST_S = 0.05
CLEANED_EVERY_S = 300.0
TTL_S = 3 * 86400.0  # a target that was taken out of the settings: nobody will take its messages
MOST_PER_COMMIT = 1_000


class Collector(Service):
    """Ends the window of notices. Any number may run: notices are handed over by one guarded statement."""

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

    def run_once(self) -> RoundResult:
        self._clean_now_and_then()
        left_s = self._seconds_left()
        if left_s is None:
            return RoundResult(0, LONGEST_REST_S)
        if left_s > 0:
            return RoundResult(0, min(max(left_s, SHORTEST_REST_S), LONGEST_REST_S))
        return RoundResult(self.hand_over(), 0)

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
        deleted = MOST_PER_COMMIT
        while deleted == MOST_PER_COMMIT and not self.is_stopping:
            with self._database.single() as tx:
                deleted = self._store.forget(tx, older_than_us, MOST_PER_COMMIT)


class Courier:
    """Handles the messages of one target: delivered, given back to be tried later, or given up."""

    def __init__(self, target: str, channel: Channel, attempts: int, database: Database, event_log: EventLog) -> None:
        self.target = target
        self._channel = channel
        self._attempts = attempts
        self._database = database
        self._event_log = event_log

    def deliver(self, message: Message) -> Any:
        try:
            self._channel.send(message.id, message.payload)
        except NotDelivered as error:
            tries = message.give_backs + 1
            if not error.is_final and tries < self._attempts:
                self._record(EventKind.NOTIFICATION_DELAYED, message, str(error))
                return GiveBack(pause_s(tries))
            self._record(EventKind.NOTIFICATION_FAILED, message, str(error))
            raise
        crash.here(CrashPoint.NOTIFICATION_DELIVERED)
        self._record(EventKind.NOTIFICATION_SENT, message)
        return None

    def _record(self, kind: EventKind, message: Message, why: str = "") -> None:
        found: Digest = message.payload
        data = {"title": found["title"], "notices": len(found["notices"]) + found["more"], MESSAGE: message.id}
        # It was delivered, put off or given up all the same, and the message says so.
        with suppress(DatabaseError), self._database.transaction() as tx:
            self._event_log.record(tx, Event(kind, self.target, why=why, data=data))


def inbox_of(target: str) -> str:
    return f"notify:{target}"


def pause_s(tries: int) -> float:
    """How long to wait after that many failed deliveries."""
    return float(min(FIRST_PAUSE_S * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE_S))
