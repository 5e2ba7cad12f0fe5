"""How a process that was started for a duty makes itself known: behind the fence, and with an ear for pings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.clock import Clock
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import Identity, Process
from towpath.events import Events
from towpath.service import Service
from towpath.settings import ProcessSettings, Settings
from towpath.supervision.fence import Fence, leave_replaced
from towpath.supervision.given_launch import GivenLaunch, mark_shown
from towpath.supervision.ping_responder import PingResponder
from towpath.supervision.ping_socket import open_ping_socket, told_address
from towpath.supervision.udp import UdpSocket


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A process that may do its duty."""

    process: Process
    fence: Fence
    services: list[Service]
    close: Callable[[], None]


def enrol(
    settings: Settings,
    database: Database,
    events: Events,
    event_log: EventLog,
    clock: Clock,
    given: GivenLaunch,
    kind: str,
    pinged_at: str | None = None,
    leave: Callable[[], None] = leave_replaced,
) -> Enrolled:
    """Show the launch, or leave; then register. `pinged_at` is where it answers pings by itself, as peers do."""
    udp: UdpSocket | None = None
    if pinged_at is None:
        udp = open_ping_socket(settings, given.duty, events, clock)
        pinged_at = told_address(settings, udp)
    identity = Identity(kind, given.duty, given.launch, pinged_at)
    process = Process(database, _named(settings.process, given.duty), clock, identity)
    fence = Fence(database, event_log, given, process.id, leave)
    fence.pass_through()
    mark_shown(given)
    process.register()
    process.on_ready = fence.ready
    services: list[Service] = [] if udp is None else [PingResponder(udp, given.launch, events)]

    def close() -> None:
        if udp is not None:
            udp.close()
        mark_shown(None)
        fence.give_back()

    return Enrolled(process, fence, services, close)


def _named(settings: ProcessSettings, duty: str) -> ProcessSettings:
    """By its duty, unless the settings say another name."""
    is_default = settings.name == ProcessSettings().name
    return settings.model_copy(update={"name": duty}) if is_default else settings
