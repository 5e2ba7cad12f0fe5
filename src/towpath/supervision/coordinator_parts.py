"""What the coordinator works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import ProcessStore
from towpath.events import Events
from towpath.notify.notice import Teller
from towpath.settings import SupervisionSettings
from towpath.supervision.death import DeathStore
from towpath.supervision.duty_cache import DutyCache
from towpath.supervision.duty_store import DutyStore
from towpath.supervision.freeing import Freeing
from towpath.supervision.reach import Reach
from towpath.supervision.term_keeper import TermKeeper
from towpath.supervision.udp import Address

Ping = Callable[[str, Address, int], None]


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """The stores and hands of one peer."""

    settings: SupervisionSettings
    lease_s: float  # of processes
    database: Database
    events: Events
    event_log: EventLog
    terms: TermKeeper
    duties: DutyStore
    cache: DutyCache
    deaths: DeathStore
    processes: ProcessStore
    freeing: Freeing
    reach: Reach
    teller: Teller
    ping: Ping
