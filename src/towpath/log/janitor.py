"""Deletes records past their retention from the SQLite log."""

from __future__ import annotations

from collections.abc import Callable

from towpath.db import Transaction
from towpath.events import Event, Events
from towpath.log.sqlite_log import SqliteLog
from towpath.service import Result, Service


class LogJanitor(Service):
    """Runs in every process that has opened the log; two at once only share the work."""

    name = "log janitor"

    def __init__(self, log: SqliteLog, events: Events, record: Callable[[Transaction, Event], None]) -> None:
        super().__init__(events)
        self._log = log
        self._record = record

    def run_once(self) -> Result:
        expired = self._log.retention.expire(self._record)
        self._log.retention.free_room()
        return Result(expired, self._log.settings.janitor_s)

    def size_bytes(self) -> int:
        """How much room the file takes in which the topics are."""
        return self._log.database.size_bytes()
