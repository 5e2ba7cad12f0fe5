"""Drives the election over UDP: one thread that waits for packets and for the clock, and calls nothing that blocks."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from towpath.clock import Clock
from towpath.errors import TowpathError
from towpath.events import Event, EventKind, Events
from towpath.service import Result, Service
from towpath.supervision.election import Election
from towpath.supervision.messages import Message, Ping, Pong, Send
from towpath.supervision.role import Role
from towpath.supervision.tenure import Tenure
from towpath.supervision.timing import Timing
from towpath.supervision.udp import Address, Received, UdpSocket

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 1.0
HEARD_S = 2.0  # so long a peer is taken to be where its last packet came from, whatever is told of it

OnPong = Callable[[str, Pong], None]


@dataclass(frozen=True, slots=True)
class PeerView:
    """What a peer knows of its group."""

    me: int
    role: Role
    coordinator: int | None
    members: frozenset[int]
    term: int  # of its coordinator, as far as it knows; 0: none


class Addresses(Protocol):
    """Where the other peers are. It finds out in a thread of its own: the election must not wait for it."""

    def get(self, number: int) -> Address | None:
        """Where one is; none while that is not known."""

    def run_once(self) -> Result:
        """Find out now."""

    def start(self) -> None:
        """Find out again and again."""

    def stop(self, timeout_s: float = ...) -> None:
        """Not any more."""


class PeerNode(Service):
    """One peer of the election. `view` and `ping` may be called from any thread."""

    name = "peer"

    def __init__(
        self,
        me: int,
        names: Mapping[int, str],
        udp: UdpSocket,
        addresses: Addresses,
        timing: Timing,
        events: Events,
        clock: Clock,
        launch: int = 0,
        on_pong: OnPong | None = None,
    ) -> None:
        """`names` are those of all peers by number, as they stand in packets."""
        super().__init__(events)
        self._names = names
        self._numbers = {name: number for number, name in names.items()}
        self._udp = udp
        self._addresses = addresses
        self._heard: dict[int, tuple[Address, float]] = {}  # from where a peer's last packet came, and when
        self._both = threading.Lock()  # the addresses run as long as the node does
        self._clock = clock
        self._launch = launch
        self._on_pong = on_pong
        self._election = Election(me, names.keys(), timing, random.SystemRandom(), clock.monotonic())
        self.tenure = Tenure(timing, clock.monotonic())  # the service of the term writes down in it what was granted
        self._view = self._look()

    def view(self) -> PeerView:
        return self._view

    def ping(self, name: str, address: Address, nonce: int) -> None:
        """Ask a process; its answer comes to `on_pong`, in this node's thread."""
        self._udp.send(name, address, Ping(nonce))

    def start(self) -> None:
        with self._both:
            with suppress(TowpathError):  # its thread tries again
                self._addresses.run_once()  # so that the first invitations have somewhere to go
            self._addresses.start()
            super().start()

    def stop(self, timeout_s: float = 30.0) -> None:
        with self._both:
            super().stop(timeout_s)
            self._addresses.stop(timeout_s)

    def wake(self) -> None:
        self._udp.wake()

    def on_stop(self) -> None:
        self._send(self._election.leave())

    def run_once(self) -> Result:
        now = self._clock.monotonic()
        wait_s = min(self._election.next_tick(now) - now, LONGEST_WAIT_S)
        received = self._udp.receive(wait_s)
        now = self._clock.monotonic()
        # By the clock, and not when somebody says so: the thread that asks the database may hang in its question.
        self._election.report(self.tenure.term(now), self.tenure.is_fit(now))
        sends = [send for each in received for send in self._handle(each)]
        sends += self._election.tick(self._clock.monotonic())
        before, self._view = self._view, self._look()
        self._send(sends)
        self._tell(before, self._view)
        return Result(len(received), 0)

    def _handle(self, received: Received) -> list[Send]:
        message: Message = received.message
        if isinstance(message, Ping):
            self._udp.send(received.sender, received.address, Pong(message.nonce, self._launch))
        elif isinstance(message, Pong):
            if self._on_pong is not None:
                self._on_pong(received.sender, message)
        elif (number := self._numbers.get(received.sender)) is not None:
            now = self._clock.monotonic()
            self._heard[number] = received.address, now
            return self._election.receive(number, message, now)
        return []

    def _send(self, sends: list[Send]) -> None:
        for send in sends:
            address = self._address(send.to)
            if address is not None:
                self._udp.send(self._names[send.to], address, send.message)

    def _address(self, number: int) -> Address | None:
        """A peer that was started again may have another address, and speaks before others tell of it."""
        heard, at = self._heard.get(number, (None, 0.0))
        if heard is not None and self._clock.monotonic() - at < HEARD_S:
            return heard
        return self._addresses.get(number) or heard

    def _look(self) -> PeerView:
        election = self._election
        return PeerView(election.me, election.role, election.coordinator, election.members, election.term)

    def _tell(self, before: PeerView, after: PeerView) -> None:
        if (before.role, before.coordinator) == (after.role, after.coordinator):
            return
        logger.info("peer %d is %s now; coordinator: %s", after.me, after.role, after.coordinator or "none yet")
        data = {"role": after.role.value, "coordinator": after.coordinator, "before": before.role.value}
        self.events.publish(Event(EventKind.PEER_ROLE_CHANGED, self._names[after.me], data=data))
