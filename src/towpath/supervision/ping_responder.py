"""Answers the coordinator's pings, in a thread of its own that nothing else holds up."""

from __future__ import annotations

from towpath.events import Events
from towpath.service import Result, Service
from towpath.supervision.messages import Ping, Pong
from towpath.supervision.udp import UdpSocket

WAIT_S = 1.0


class PingResponder(Service):
    """Says that this process lives, and which launch it is."""

    name = "ping"

    def __init__(self, udp: UdpSocket, launch: int, events: Events) -> None:
        super().__init__(events)
        self._udp = udp
        self._launch = launch

    def run_once(self) -> Result:
        answered = 0
        for received in self._udp.receive(WAIT_S):
            if isinstance(received.message, Ping):
                self._udp.send(received.sender, received.address, Pong(received.message.nonce, self._launch))
                answered += 1
        return Result(answered, 0)

    def wake(self) -> None:
        self._udp.wake()
