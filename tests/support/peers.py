"""Peers in threads of one process: real sockets, a real database, and ways to take both away from one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from towpath.core.clock import SystemClock
from towpath.core.events import Event, Events
from towpath.core.service import RoundResult
from towpath.errors import DatabaseUnavailable
from towpath.runtime import Runtime
from towpath.supervision.election.election import PeerRole, Timing
from towpath.supervision.election.messages import Pong
from towpath.supervision.election.packet import PacketOpener, PacketSealer
from towpath.supervision.peers.node import PeerNode, TermService
from towpath.supervision.peers.socket import Address, UdpSocket
from towpath.supervision.term import TermKeeper
from towpath.testing.clock import wait_until

SECRET = "what all peers of a test know"  # noqa: S105 - of no system
CLUSTER = "barges"
CLOCK = SystemClock()


class Book:
    """Where the peers of a test are."""

    def __init__(self) -> None:
        self.entries: dict[int, Address] = {}

    def get(self, number: int) -> Address | None:
        return self.entries.get(number)

    def run_once(self) -> RoundResult:
        return RoundResult(0, 1.0)

    def start(self) -> None: ...

    def stop(self, timeout_s: float = 1.0) -> None: ...


class Line:
    """The way of one peer to the term in the database, which can be cut, or hang."""

    def __init__(self, keeper: TermKeeper) -> None:
        self._keeper = keeper
        self.is_cut = False
        self.passes = threading.Event()
        self.passes.set()

    def take(self) -> int | None:
        self._check()
        return self._keeper.take()

    def renew(self, term: int) -> bool:
        self._check()
        return self._keeper.renew(term)

    def release(self, term: int) -> None:
        self._check()
        self._keeper.release(term)

    def read(self) -> None:
        self._check()
        self._keeper.read()

    def _check(self) -> None:
        self.passes.wait(60.0)
        if self.is_cut:
            raise DatabaseUnavailable("the line of this peer is cut")


def open_udp(name: str, events: Events, *, secret: str = SECRET, cluster: str = CLUSTER) -> UdpSocket:
    sealer = PacketSealer(secret, cluster, name, boot=time.time_ns())
    return UdpSocket(("127.0.0.1", 0), sealer, PacketOpener(secret, cluster, name), events, CLOCK)


class PeerStand:
    """One peer: its node and its way to the term."""

    def __init__(self, runtime: Runtime, number: int, size: int, book: Book, timing: Timing) -> None:
        self.number = number
        self.events = Events()
        self.told: list[Event] = []
        self.events.subscribe(self.told.append)
        self.pongs: list[tuple[str, Pong]] = []
        self.udp = open_udp(f"peer-{number}", self.events)
        book.entries[number] = self.udp.address
        names = {each: f"peer-{each}" for each in range(1, size + 1)}
        self.node = PeerNode(number, names, self.udp, book, timing, self.events, CLOCK, 1, self._answered)
        keeper = TermKeeper(runtime.database, runtime.event_log, f"peer-{number}-{id(self)}", number, timing.lease_s)
        self.line = Line(keeper)
        self.terms = TermService(self.line, self.node, timing, CLOCK, self.events)

    def _answered(self, name: str, pong: Pong) -> None:
        self.pongs.append((name, pong))

    def start(self) -> None:
        self.node.start()
        self.terms.start()

    def stop(self) -> None:
        """As a process does that is told to: the term is given back, and the followers are told."""
        self.line.passes.set()
        self.terms.stop()
        self.node.stop()
        self.udp.close()

    def die(self) -> None:
        """As one that is killed: nobody is told anything."""
        self.node.tenure.refused(CLOCK.monotonic())  # so that nothing is given back
        self.line.is_cut = True
        self.node._election.leave = list  # type: ignore[method-assign]
        self.stop()


class Peers:
    """All peers of a test."""

    def __init__(self, runtime: Runtime, size: int) -> None:
        self._runtime = runtime
        self._size = size
        self._timing = Timing(lease_s=6.0)
        self._book = Book()
        self.living: dict[int, PeerStand] = {}

    def start(self, number: int) -> PeerStand:
        stand = PeerStand(self._runtime, number, self._size, self._book, self._timing)
        self.living[number] = stand
        stand.start()
        return stand

    def stop(self) -> None:
        for stand in self.living.values():
            stand.stop()

    def remove(self, stand: PeerStand) -> PeerStand:
        return self.living.pop(stand.number)

    def acting(self) -> list[PeerStand]:
        return [stand for stand in self.living.values() if stand.terms.number]

    def one_group(self) -> PeerStand | None:
        """The coordinator, if there is one that acts and all others follow it."""
        leaders = [stand for stand in self.living.values() if stand.node.view().role is PeerRole.COORDINATOR]
        if len(leaders) != 1 or not leaders[0].terms.number:
            return None
        leader = leaders[0]
        is_followed = all(
            stand.node.view().coordinator == leader.number and stand.node.view().term == leader.terms.number
            for stand in self.living.values()
        )
        return leader if is_followed and leader.node.view().members == self.living.keys() else None

    def wait_for_one_group(self) -> PeerStand:
        def picture() -> str:
            return "; ".join(str(stand.node.view()) for stand in self.living.values())

        try:
            wait_until(self.one_group, 30.0, "one group")
        except TimeoutError as error:
            raise AssertionError(picture()) from error
        [leader] = self.acting()
        return leader


@contextmanager
def peers_of(runtime: Runtime, size: int) -> Iterator[Peers]:
    peers = Peers(runtime, size)
    with ExitStack() as ending:
        ending.callback(peers.stop)
        for number in range(1, size + 1):
            peers.start(number)
        yield peers
