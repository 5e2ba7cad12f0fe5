"""Makes from the settings the gateway, the outlet, and the services that bring uploads to their end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from towpath.blocks.service import BlockService
from towpath.core.clock import Clock
from towpath.core.events import Events
from towpath.core.service import Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import BadSettings
from towpath.flow.flow import Flow
from towpath.gateway.completion.closer import Closer
from towpath.gateway.completion.plan import ClosingPlan
from towpath.gateway.completion.tracker import PassTracker
from towpath.gateway.janitor import UploadJanitor
from towpath.gateway.outlet.service import Outlet
from towpath.gateway.outlet.store import CommittedFiles, uploads_root
from towpath.gateway.sender_run import SenderContext
from towpath.gateway.service import Gateway
from towpath.gateway.uploads.streams import Streams
from towpath.log.log import Log
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROOM = 4  # JSON may need several characters for one, and names of columns stand in each record

WITHOUT_FLOW = ""


def open_gateway(
    settings: Settings,
    database: Database,
    events: Events,
    event_log: EventLog,
    log: Callable[[], Log],
    clock: Clock,
    blocks: BlockService | None = None,
) -> Gateway:
    """The gateway of this process; `BadSettings` when no record could hold the longest line."""
    line_bytes, record_bytes = settings.gateway.line_bytes, settings.log.max_record_bytes
    if settings.gateway.streams and ROOM * line_bytes > record_bytes:
        raise BadSettings(
            f"gateway.line_bytes ({line_bytes}) must be at most a quarter of log.max_record_bytes ({record_bytes})"
        )
    rules = blocks or BlockService(database, event_log, clock)
    return Gateway(SenderContext(settings, database, events, log, blocks=rules), event_log, clock)


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
            PassTracker(plan, database, log, events, event_log),
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
    from towpath.gateway.completion.job import ClosingJob  # loads Spark's surroundings

    root = uploads_root(settings)
    remove_given_up = partial(CommittedFiles(database).remove_given_up, root, database, flow.name)
    remove_given_up()
    job = ClosingJob(open_spark) if flow.closings else None
    return [
        PassTracker(plan, database, log, events, event_log, remove_given_up),
        Closer(plan, root, database, events, event_log, job, are_replayed, clock=clock),
    ]
