"""Makes the services that take errors in and delete what is past its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.desk.attempt_store import AttemptStore
from towpath.desk.blobs import Blobs
from towpath.desk.bodies import Bodies
from towpath.desk.case_janitor import CaseJanitor
from towpath.desk.case_store import CaseStore
from towpath.desk.edit_store import EditStore
from towpath.desk.group_store import GroupStore
from towpath.desk.grouping import Grouping
from towpath.desk.intake import Intake
from towpath.desk.mending import Mender, NoMender
from towpath.desk.outcomes import OutcomeTaking
from towpath.desk.parking import Parking
from towpath.desk.policy_store import PolicyStore
from towpath.desk.position_store import PositionStore
from towpath.desk.sending import Sends
from towpath.desk.taking import ErrorTaking
from towpath.events import Events
from towpath.log.log import Log
from towpath.notify.notice import Teller
from towpath.settings import Settings


def blobs_of(settings: Settings) -> Blobs:
    """Where the desk keeps large bodies."""
    return Blobs(Path(settings.desk.directory).absolute() / "bodies")


def open_intake(
    settings: Settings,
    database: Database,
    log: Callable[[], Log],
    events: Events,
    event_log: EventLog,
    teller: Teller,
    mender: Mender | None = None,
) -> Intake:
    """The intake of all flows."""
    flows = Path(settings.flow.directory).absolute()
    cases, positions, parking = CaseStore(database), PositionStore(database), Parking(database)
    errors = ErrorTaking(
        database,
        Bodies(blobs_of(settings), lambda flow: flows / flow / "blobs", settings.desk.large_body_bytes),
        Grouping(GroupStore(database), teller),
        mender or NoMender(),
        cases,
        AttemptStore(database),
        positions,
        PolicyStore(database),
        Sends(database),
        EditStore(database),
        parking,
    )
    outcomes = OutcomeTaking(database, cases, positions, parking)
    return Intake(database, log, errors, outcomes, events, settings.desk.intake_s, event_log.record)


def open_case_janitor(settings: Settings, database: Database, events: Events, event_log: EventLog) -> CaseJanitor:
    """What deletes cases whose time is over."""
    return CaseJanitor(database, blobs_of(settings), settings.desk, events, event_log.record)
