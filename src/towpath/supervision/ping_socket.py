"""Where a process answers pings."""

from __future__ import annotations

import time

from towpath.clock import Clock
from towpath.events import Events
from towpath.settings import Settings
from towpath.supervision.host import written_address
from towpath.supervision.packet import Opener, Sealer
from towpath.supervision.secret import secret_of
from towpath.supervision.udp import UdpSocket


def open_ping_socket(settings: Settings, name: str, events: Events, clock: Clock, port: int = 0) -> UdpSocket:
    """A socket on which `name`, a duty, speaks with peers; on any free port if none is given."""
    secret, cluster = secret_of(settings), settings.supervision.cluster
    sealer = Sealer(secret, cluster, name, boot=time.time_ns())
    bind = settings.supervision.listen, port
    return UdpSocket(bind, sealer, Opener(secret, cluster, name), events, clock)


def told_address(settings: Settings, udp: UdpSocket) -> str:
    """Under which others reach it."""
    host, port = udp.address
    return written_address(settings.supervision.address or host, port)
