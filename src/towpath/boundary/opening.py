"""From settings to a gateway."""

from __future__ import annotations

from collections.abc import Callable

from towpath.access.block_store import BlockStore
from towpath.access.blocks import Blocks
from towpath.boundary.gateway import Gateway
from towpath.boundary.sender_store import SenderStore
from towpath.boundary.streams import Streams
from towpath.boundary.taking_parts import TakingParts
from towpath.boundary.upload_store import UploadStore
from towpath.clock import Clock
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import BadSettings
from towpath.events import Events
from towpath.log.log import Log
from towpath.settings import Settings

ROOM = 4  # JSON may need several characters for one, and names of columns stand in each record


def open_gateway(
    settings: Settings,
    database: Database,
    events: Events,
    event_log: EventLog,
    log: Callable[[], Log],
    clock: Clock,
    blocks: Blocks | None = None,
) -> Gateway:
    """The gateway of this process; `BadSettings` when no record could hold the longest line."""
    streams = Streams(settings.gateway)
    line_bytes, record_bytes = settings.gateway.line_bytes, settings.log.max_record_bytes
    if settings.gateway.streams and ROOM * line_bytes > record_bytes:
        raise BadSettings(
            f"gateway.line_bytes ({line_bytes}) must be at most a quarter of log.max_record_bytes ({record_bytes})"
        )
    stores = UploadStore(database), SenderStore(database)
    rules = blocks or Blocks(database, event_log, clock), BlockStore(database)
    return Gateway(TakingParts(settings, database, events, log, streams, *stores, *rules), event_log, clock)
