"""What every piece of the actors is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.actors.instance_store import InstanceStore
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import Process, ProcessStore
from towpath.events import Events
from towpath.queue.held_messages import HeldMessages
from towpath.queue.parts import Parts as QueueParts
from towpath.settings import ActorSettings, Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """Made once, by `Actors`, and handed to each of its pieces."""

    database: Database
    settings: ActorSettings
    events: Events
    event_log: EventLog
    queue: QueueParts
    instances: InstanceStore
    held: HeldMessages
    processes: ProcessStore
    process: Callable[[], Process]
    all_settings: Settings  # for processes that are started from here
