"""Delivering what lies in the inbox of one target, one message after the other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import DatabaseError, NotDelivered
from towpath.events import Event, EventKind
from towpath.notify.channel import Channel
from towpath.notify.digest import Digest
from towpath.queue.message import GiveBack, Message

FUNCTION = "deliver"
MESSAGE = "message"  # in the data of an event: its id
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 3600.0


def inbox_of(target: str) -> str:
    return f"notify:{target}"


def pause_s(tries: int) -> float:
    """How long to wait after so many deliveries have failed."""
    longest: float = min(FIRST_PAUSE_S * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE_S)
    return longest


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
