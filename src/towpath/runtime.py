"""The only place that makes parts and connects them: from settings to a running Towpath."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from towpath import settings as settings_module
from towpath.clock import Clock, SystemClock
from towpath.db import Transaction, open_database
from towpath.db.event_log import EventLog
from towpath.db.processes import Heartbeat, Process, leave_at_once, record_start, record_stop
from towpath.errors import DatabaseError, TowpathError
from towpath.events import Event, Events
from towpath.log import Log, open_log
from towpath.log.janitor import LogJanitor
from towpath.log.open import KAFKA_PREFIX
from towpath.log.sqlite_log import SqliteLog
from towpath.logs import log_event
from towpath.queue import Queue
from towpath.service import Service
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.flow.flow import Flow
    from towpath.flow.flow_run import FlowRun

logger = logging.getLogger(__name__)


class Runtime:
    """One process's Towpath: its database, its queue and, once it claims something, its process row."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, on_dead: Callable[[], None] = leave_at_once
    ) -> None:
        self.settings = settings
        self.events = Events()
        self.events.subscribe(log_event)
        self._clock = clock or SystemClock()
        self._on_dead = on_dead
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._process: Process | None = None
        self._log: Log | None = None
        self._is_closed = False
        self._services: list[Service] = []
        self.database = open_database(settings.database)
        self.event_log = EventLog(self.database, self.events)
        self.queue = Queue(self.database, settings.queue, self.events, self.event_log, self.process)

    @property
    def log(self) -> Log:
        """The topics, opened when first asked for; on SQLite with the janitor that deletes what is past its time."""
        self._check_pid()
        with self._lock:
            if self._log is None:
                self._check_open()
                self._log = open_log(self.settings.log, self.database)
                if isinstance(self._log, SqliteLog):
                    self._start(LogJanitor(self._log, self.events, self._record_expiry))
            return self._log

    def spark(self, name: str = "towpath") -> SparkSession:
        """The Spark session of this process, started when first asked for, that can read this runtime's topics."""
        from towpath.spark.session import build_session  # loads pyspark and Java

        return build_session(self.settings.spark, name, connector=self.settings.log.url.startswith(KAFKA_PREFIX))

    def flow(self, flow: Flow) -> FlowRun:
        """A flow, ready to be started in this process."""
        from towpath.flow.flow_run import FlowRun, Parts  # loads pyspark

        parts = Parts(
            self.settings,
            self.database,
            self.events,
            self.event_log,
            self.log,
            self.spark,
            self.process().id,
        )
        return FlowRun(parts, flow)

    def process(self) -> Process:
        """This process as others see it, registered when first asked for, with the services that keep it alive."""
        self._check_pid()
        with self._lock:
            if self._process is None:
                self._check_open()
                process = Process(self.database, self.settings.process, self._clock)
                process.register()
                with self.database.transaction() as tx:
                    record_start(self.event_log, tx, process)
                self._process = process
                self._start(
                    Heartbeat(process, self.events, self._on_dead), self.queue.caretaker(), self.queue.janitor()
                )
            return self._process

    def _start(self, *services: Service) -> None:
        for service in services:
            self._services.append(service)
            service.start()

    def _record_expiry(self, tx: Transaction, event: Event) -> None:
        """With the records' own change where they are in the same database; otherwise after it."""
        if tx.writes_to(self.database):
            self.event_log.record(tx, event)
        else:
            tx.after_commit(lambda: self._record(event))

    def _record(self, event: Event) -> None:
        with self.database.transaction() as tx:
            self.event_log.record(tx, event)

    def _check_pid(self) -> None:
        if self._pid != os.getpid():
            raise TowpathError("this runtime was opened before a fork; call towpath.connect() in the child")

    def _check_open(self) -> None:
        if self._is_closed:
            raise TowpathError("this runtime was closed; connect again")

    def close(self) -> None:
        """Stop the services and close the database. Inboxes that were started are the caller's to stop first."""
        if self._pid != os.getpid():
            return  # a forked child: all this is its parent's
        with self._lock:
            self._is_closed = True
        try:
            for service in reversed(self._services):
                service.stop()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._process is not None:
            with contextlib.suppress(DatabaseError):
                self._process.stop()
                with self.database.transaction() as tx:
                    record_stop(self.event_log, tx, self._process)
            self._process = None
        self._services = []
        try:
            if self._log is not None:
                self._log.close()
        finally:
            self.database.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(url: str | None = None, *, config: Path | None = None, **overrides: dict[str, Any]) -> Runtime:
    """Open Towpath with the settings of this directory, or with the database at `url`.

    `overrides` are sections of settings, as in `connect(process={"lease_s": 30})`.
    """
    flags: dict[str, Any] = dict(overrides)
    if url is not None:
        flags["database"] = {**flags.get("database", {}), "url": url}
    return Runtime(settings_module.load(flags, config))
