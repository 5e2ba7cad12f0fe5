"""The stores and services that the parts of the desk share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from towpath.actors.service import Actors
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.actions.actions import CaseAction, JobKind
from towpath.desk.actions.job_store import JobStore
from towpath.desk.cases.blobs import blobs_of
from towpath.desk.cases.store import AttemptStore, CaseStore, HistoryStore
from towpath.desk.edits import EditStore
from towpath.desk.groups.store import GroupStore
from towpath.desk.replay.outbox import OutboxWriter, Parking
from towpath.log.log import Log
from towpath.settings import Settings

Maker = Callable[[Mapping[str, Any]], CaseAction]


class DeskContext:
    """Made once, by `Desk`, and handed to each of its parts."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        event_log: EventLog,
        actors: Actors,
        *,
        log: Callable[[], Log],
        makers: Mapping[JobKind, Maker] | None = None,
    ) -> None:
        """`makers` make what bulk jobs can do beside the desk's own actions, from the arguments of the job."""
        self.settings = settings
        self.database = database
        self.event_log = event_log
        self.actors = actors
        self.log = log
        self.makers = makers or {}
        self.cases = CaseStore(database)
        self.attempts = AttemptStore(database)
        self.blobs = blobs_of(settings)
        self.groups = GroupStore(database)
        self.sends = OutboxWriter(database)
        self.parking = Parking(database)
        self.edits = EditStore(database)
        self.jobs = JobStore(database)
        self.history = HistoryStore(database)
