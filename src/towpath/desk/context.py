"""What every piece of the operators' desk is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.actors.service import Actors
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.actions.actions import CaseAction, JobKind
from towpath.desk.actions.job_store import JobStore
from towpath.desk.cases.blobs import Blobs, blobs_of
from towpath.desk.cases.store import AttemptStore, CaseStore, HistoryStore
from towpath.desk.edits import EditStore
from towpath.desk.groups.store import GroupStore
from towpath.desk.replay.outbox import OutboxWriter, Parking
from towpath.log.log import Log
from towpath.settings import Settings

Maker = Callable[[Mapping[str, Any]], CaseAction]


@dataclass(frozen=True, slots=True)
class DeskContext:
    """Made once, by `Desk`, and handed to each of its pieces."""

    settings: Settings
    database: Database
    event_log: EventLog
    actors: Actors
    log: Callable[[], Log]
    cases: CaseStore
    attempts: AttemptStore
    blobs: Blobs
    groups: GroupStore
    sends: OutboxWriter
    parking: Parking
    edits: EditStore
    jobs: JobStore
    history: HistoryStore
    # What bulk jobs can do beside the desk's own acts, by the kind of the job, from its arguments.
    makers: Mapping[JobKind, Maker] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        event_log: EventLog,
        actors: Actors,
        log: Callable[[], Log],
        makers: Mapping[JobKind, Maker],
    ) -> DeskContext:
        return cls(
            settings,
            database,
            event_log,
            actors,
            log,
            CaseStore(database),
            AttemptStore(database),
            blobs_of(settings),
            GroupStore(database),
            OutboxWriter(database),
            Parking(database),
            EditStore(database),
            JobStore(database),
            HistoryStore(database),
            makers,
        )
