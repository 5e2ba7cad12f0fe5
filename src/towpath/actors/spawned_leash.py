"""Ties a spawned process to its row: tells how far it is, and ends it when nobody wants its work any more."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable

from towpath.actors.spawned import SpawnedStore
from towpath.actors.spawned_job import Job
from towpath.actors.spawned_log import SpawnedLog
from towpath.db import Database
from towpath.events import Events
from towpath.service import Result, Service

logger = logging.getLogger(__name__)

LOOK_S = 0.5


def end_group(which: signal.Signals) -> None:
    """This process and all that it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), which)
    else:
        os.kill(os.getpid(), which)


class Leash(Service):
    """Runs beside the work. The spawner may be on another machine, or have been replaced: the row reaches us there."""

    name = "leash"

    def __init__(
        self,
        database: Database,
        events: Events,
        launch_id: str,
        process_id: str,
        log: SpawnedLog,
        grace_s: float,
        end: Callable[[signal.Signals], None] = end_group,
    ) -> None:
        super().__init__(events)
        self.job: Job | None = None
        """What is worked on. Taken away before its message is brought to its end."""
        self._database = database
        self._store = SpawnedStore(database)
        self._launch_id = launch_id
        self._process_id = process_id
        self._log = log
        self._grace_s = grace_s
        self._end = end
        self._told: tuple[float, str] | None = None
        self._kill_at: float | None = None

    def run_once(self) -> Result:
        job = self.job
        self._log.cut()
        if self._kill_at is not None:
            self._kill_when_late(self._kill_at)
        elif not self._is_wanted(job) and self.job is job:
            logger.warning("nobody wants this work any more: this process ends")
            self._kill_at = time.monotonic() + self._grace_s
            self._end(signal.SIGTERM)
        elif job is not None:
            self._tell(job)
        return Result(1, LOOK_S)

    def _is_wanted(self, job: Job | None) -> bool:
        message_id = None if job is None else job.message.id
        with self._database.glance() as tx:
            return self._store.is_wanted(tx, self._launch_id, self._process_id, message_id)

    def _tell(self, job: Job) -> None:
        told = job.told
        if told is not None and told != self._told:
            with self._database.single() as tx:
                self._store.tell(tx, self._launch_id, self._process_id, *told)
            self._told = told

    def _kill_when_late(self, kill_at: float) -> None:
        if time.monotonic() >= kill_at:
            logger.warning("this process did not end within %g s: it is killed", self._grace_s)
            self._end(signal.SIGKILL)
