"""What keeps a process from working whose launch is not the current one.

The coordinator takes each launch in the database before it tells anybody to start a process, and a process shows its
launch there before it does anything. So of all the processes that a paused coordinator, a repeated request or a split
network may have brought up, one can work; the others leave.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable
from towpath.events import Event, EventKind
from towpath.supervision.bell import BELL
from towpath.supervision.death import DeathStore
from towpath.supervision.duty import Duty
from towpath.supervision.duty_store import DutyStore
from towpath.supervision.given_launch import GivenLaunch

logger = logging.getLogger(__name__)

EXIT_CODE_REPLACED = 71
ADOPT_WITHIN_S = 30.0
ADOPT_AGAIN_S = 0.2


def leave_replaced() -> None:
    """What a process does whose launch is not the current one: nothing that it has is its own."""
    logger.critical("another start has taken the place of this one; leaving at once")
    os._exit(EXIT_CODE_REPLACED)


class Fence:
    """One process's launch, held against the database."""

    def __init__(
        self,
        database: Database,
        event_log: EventLog,
        given: GivenLaunch,
        process_id: str,
        leave: Callable[[], None] = leave_replaced,
    ) -> None:
        self.given = given
        self._database = database
        self._event_log = event_log
        self._process_id = process_id
        self._leave = leave
        self._duties = DutyStore(database)
        self._deaths = DeathStore(database)

    def pass_through(self) -> None:
        """Show the launch, or leave."""
        if not self._adopt():
            self._leave()
        crash.here(CrashPoint.LAUNCH_ADOPTED)

    def _adopt(self) -> bool:
        """Whether it may work. A database that is slow for a while must not look like a start that came to nothing."""
        given, deadline = self.given, time.monotonic() + ADOPT_WITHIN_S
        while True:
            try:
                with self._database.single() as tx:
                    return self._duties.adopt(tx, given.duty, given.launch, given.launch_id, self._process_id)
            except (DatabaseUnavailable, CommitUnknown):
                if time.monotonic() > deadline:
                    raise
            time.sleep(ADOPT_AGAIN_S)

    def check(self) -> None:
        """Leave when another launch has taken the place of this one."""
        with self._database.glance() as tx:
            is_current = self._duties.is_current(tx, self.given.launch_id, self._process_id)
        if not is_current:
            self._leave()

    def ready(self) -> None:
        """The duty is done from now on."""
        with self._database.transaction() as tx:
            duty = self._duties.settle(tx, self.given.launch_id)
            if duty is not None:
                self._deaths.note_back(tx, duty.name)
                self._event_log.record(tx, ready_event(duty))
                tx.after_commit(lambda: self._database.bells.ring([BELL]))

    def give_back(self) -> None:
        """This process ends in order; if it was never ready, another of the same launch may do the duty.

        So a script may run one command after the other, of which the last one stays.
        """
        with suppress(DatabaseError), self._database.single() as tx:
            self._duties.give_back(tx, self.given.launch_id, self._process_id)


def ready_event(duty: Duty) -> Event:
    took_s = None if duty.ready_us is None or duty.launched_us is None else (duty.ready_us - duty.launched_us) / 1e6
    data = {"launch": duty.launch, "took_s": took_s, "process": duty.process_id}
    return Event(EventKind.DUTY_READY, duty.name, data=data)
