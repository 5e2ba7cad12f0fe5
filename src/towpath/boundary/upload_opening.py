"""From settings to the outlet, and to the services that bring uploads to their end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from towpath.boundary.closer import Closer
from towpath.boundary.closing_plan import ClosingPlan
from towpath.boundary.committed_files import CommittedFiles
from towpath.boundary.outlet import Outlet
from towpath.boundary.passing_service import Passing
from towpath.boundary.result_files import uploads_root
from towpath.boundary.streams import Streams
from towpath.boundary.upload_janitor import UploadJanitor
from towpath.clock import Clock
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.events import Events
from towpath.flow.flow import Flow
from towpath.log.log import Log
from towpath.service import Service
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHOUT_FLOW = ""


def open_outlet(settings: Settings, database: Database, event_log: EventLog) -> Outlet:
    """The results of all uploads."""
    return Outlet(uploads_root(settings), Streams(settings.gateway), database, event_log)


def open_upload_services(
    settings: Settings,
    database: Database,
    events: Events,
    event_log: EventLog,
    log: Callable[[], Log],
    *,
    clock: Clock | None = None,
) -> list[Service]:
    """What runs beside the gateway: the end of uploads that no flow works on, and of those that nobody goes on with."""
    root = uploads_root(settings)
    services: list[Service] = [UploadJanitor(root, settings.gateway, database, log, events, event_log)]
    if streams := Streams(settings.gateway).of_flow(WITHOUT_FLOW):
        plan = ClosingPlan.without_flow(streams)
        services += [
            Passing(plan, database, log, events, event_log),
            Closer(plan, root, database, events, event_log, clock=clock),
        ]
    return services


def open_flow_services(
    settings: Settings,
    database: Database,
    events: Events,
    event_log: EventLog,
    log: Callable[[], Log],
    open_spark: Callable[[], SparkSession],
    flow: Flow,
    are_replayed: Callable[[str, str], bool],
    *,
    clock: Clock | None = None,
) -> list[Service]:
    """What runs beside a flow: the end of the uploads of its streams. `BadFlow` when it promises what they do not."""
    plan = ClosingPlan.of(flow, Streams(settings.gateway).of_flow(flow.name))
    if not plan.streams:
        return []
    from towpath.boundary.closing_job import ClosingJob  # loads Spark's surroundings

    root = uploads_root(settings)
    remove_given_up = partial(CommittedFiles(database).remove_given_up, root, database, flow.name)
    remove_given_up()
    job = ClosingJob(open_spark) if flow.closings else None
    return [
        Passing(plan, database, log, events, event_log, remove_given_up),
        Closer(plan, root, database, events, event_log, job, are_replayed, clock=clock),
    ]
