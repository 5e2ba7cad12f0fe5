"""What every piece of the operators' desk is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.actors.actors import Actors
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.attempt_store import AttemptStore
from towpath.desk.blobs import Blobs
from towpath.desk.case_store import CaseStore
from towpath.desk.edit_store import EditStore
from towpath.desk.group_store import GroupStore
from towpath.desk.history import HistoryStore
from towpath.desk.job_state import JobKind
from towpath.desk.job_store import JobStore
from towpath.desk.opening import blobs_of
from towpath.desk.operating_acts import Act
from towpath.desk.parking import Parking
from towpath.desk.sending import Sends
from towpath.log.log import Log
from towpath.settings import Settings

Maker = Callable[[Mapping[str, Any]], Act]


@dataclass(frozen=True, slots=True)
class DeskParts:
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
    sends: Sends
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
    ) -> DeskParts:
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
            Sends(database),
            Parking(database),
            EditStore(database),
            JobStore(database),
            HistoryStore(database),
            makers,
        )
