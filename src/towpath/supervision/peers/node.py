"""The services with which a peer takes part in the election, each in a thread of its own.

- `PeerNode` drives the election over UDP: it waits for packets and for the clock, and calls nothing that blocks.
- `TermService` keeps the term in the database for a peer that is elected: a database may take its time.
- `PeerRows` finds the other peers: they listen on any free port, and their process rows say which one.
- `RefusedPackets` records what a socket has refused, so that the thread that receives need not wait for a database.

`PingResponder` answers the coordinator's pings in processes that are no peers.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from towpath.core.clock import Clock
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.db.processes import ProcessStore
from towpath.errors import DatabaseUnavailable, TowpathError
from towpath.supervision.election.election import Ask, Election, PeerRole, Tenure, Timing
from towpath.supervision.election.messages import Message, Ping, Pong, Send
from towpath.supervision.peers.socket import Address, ReceivedMessage, UdpSocket, peer_name, read_address

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 1.0
HEARD_S = 2.0  # so long a peer is taken to be where its last packet came from, whatever is told of it
LOOKS_S = 0.05  # how soon it sees that this peer was elected, or surrendered
WAIT_S = 1.0
READ_EVERY_S = 1.0
KIND = "peer"
LOOK_S = 2.0
KEPT = 100  # while the database is away


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

    def run_once(self) -> RoundResult:
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
        return RoundResult(len(received), 0)

    def _handle(self, received: ReceivedMessage) -> list[Send]:
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


@dataclass(frozen=True, slots=True)
class PeerView:
    """What a peer knows of its group."""

    me: int
    role: PeerRole
    coordinator: int | None
    members: frozenset[int]
    term: int  # of its coordinator, as far as it knows; 0: none


class Addresses(Protocol):
    """Where the other peers are. It finds out in a thread of its own: the election must not wait for it."""

    def get(self, number: int) -> Address | None:
        """Where one is; none while that is not known."""

    def run_once(self) -> RoundResult:
        """Find out now."""

    def start(self) -> None:
        """Find out again and again."""

    def stop(self, timeout_s: float = ...) -> None:
        """Not any more."""


class PeerRows(Service):
    """Addresses of living peers by number. While the database is away the last ones are kept."""

    name = "peer addresses"

    def __init__(self, database: Database, peers: int, events: Events) -> None:
        super().__init__(events)
        self.longest_pause_s = READ_EVERY_S
        self._database = database
        self._numbers = {peer_name(number): number for number in range(1, peers + 1)}
        self._processes = ProcessStore(database)
        self._addresses: dict[int, Address] = {}

    def get(self, number: int) -> Address | None:
        return self._addresses.get(number)

    def run_once(self) -> RoundResult:
        with self._database.beats.glance() as tx:
            found = self._processes.addresses(tx, KIND)
        # The newest last: it is the one that counts when an older one of the same number is not known to be dead yet.
        told = {self._numbers[name]: read_address(address) for name, address in found if name in self._numbers}
        self._addresses = {**self._addresses, **told}
        return RoundResult(len(told), READ_EVERY_S)


class TermService(Service):
    """Takes, renews and releases the term as the election says, and writes into the node's tenure what came of it."""

    name = "term"

    def __init__(self, terms: TermClient, node: PeerNode, timing: Timing, clock: Clock, events: Events) -> None:
        super().__init__(events)
        self.longest_pause_s = timing.renew_s
        self._terms = terms
        self._node = node
        self._clock = clock
        self._tenure = node.tenure

    @property
    def number(self) -> int:
        """The term under which this process may act; 0: none. By the local clock it ends before the lease does."""
        return self._tenure.term(self._clock.monotonic())

    def run_once(self) -> RoundResult:
        ask = self._tenure.due(self._node.view().role, self._clock.monotonic())
        if ask is not None:
            self._ask(ask)
        return RoundResult(int(ask is not None), LOOKS_S)

    def on_stop(self) -> None:
        if self.number:
            try:
                self._ask(Ask.RELEASE)
            except DatabaseUnavailable:  # then it ends by itself
                return

    def _ask(self, ask: Ask) -> None:
        asked_at = self._clock.monotonic()
        try:
            term = self._answer(ask)
        except Exception:
            self._tenure.not_reached(self._clock.monotonic())
            raise
        if ask is Ask.READ:
            self._tenure.read(asked_at)
        elif term:
            self._tenure.granted(term, asked_at)
        else:
            self._tenure.refused(asked_at)

    def _answer(self, ask: Ask) -> int | None:
        """The term that is held now."""
        held = self.number
        match ask:
            case Ask.TAKE:
                return self._terms.take()
            case Ask.RENEW:
                return held if held and self._terms.renew(held) else None
            case Ask.RELEASE:
                if held:
                    self._terms.release(held)
            case Ask.READ:
                self._terms.read()
        return None


class TermClient(Protocol):
    """The term in the database. Every method raises when the database does not answer."""

    def take(self) -> int | None:
        """A new term; none while another's lease lasts."""

    def renew(self, term: int) -> bool:
        """Whether the lease goes on."""

    def release(self, term: int) -> None:
        """End the lease, so that another need not wait for its end."""

    def read(self) -> None:
        """Any cheap question: the database answers, so this peer could act."""


class PingResponder(Service):
    """Says that this process lives, and which launch it is."""

    name = "ping"

    def __init__(self, udp: UdpSocket, launch: int, events: Events) -> None:
        super().__init__(events)
        self._udp = udp
        self._launch = launch

    def run_once(self) -> RoundResult:
        answered = 0
        for received in self._udp.receive(WAIT_S):
            if isinstance(received.message, Ping):
                self._udp.send(received.sender, received.address, Pong(received.message.nonce, self._launch))
                answered += 1
        return RoundResult(answered, 0)

    def wake(self) -> None:
        self._udp.wake()


class RefusedPackets(Service):
    """Keeps the events of a socket in the `event` table."""

    name = "refused packets"

    def __init__(self, udp: UdpSocket, database: Database, event_log: EventLog, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._event_log = event_log
        self._waiting: deque[Event] = deque(maxlen=KEPT)
        udp.tell = self._waiting.append

    def run_once(self) -> RoundResult:
        done = 0
        while self._waiting:
            with self._database.transaction() as tx:
                self._event_log.record(tx, self._waiting[0])
            self._waiting.popleft()
            done += 1
        return RoundResult(done, LOOK_S)


OnPong = Callable[[str, Pong], None]
