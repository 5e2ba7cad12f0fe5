"""A UDP socket that takes only packets of its own cluster, and counts what it drops by reason."""

from __future__ import annotations

import select
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from towpath.clock import Clock
from towpath.errors import BadSettings
from towpath.events import Event, EventKind, Events
from towpath.supervision.messages import Message
from towpath.supervision.packet import LONGEST_PACKET, Letter, Opener, Refusal, Sealer

MOST_AT_ONCE = 256  # packets between two looks at the clock
TOLD_EVERY_S = 60.0  # of one reason and one sender
TOLD = frozenset({Refusal.VERSION, Refusal.CLUSTER, Refusal.SECRET, Refusal.RECEIVER})  # somebody has to set it right

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Received:
    """A message, who sent it, and from where."""

    sender: str
    address: Address
    message: Message


class UdpSocket:
    """Sends and receives sealed messages. One thread receives; any thread may send and wake."""

    def __init__(self, bind: Address, sealer: Sealer, opener: Opener, events: Events, clock: Clock) -> None:
        self.counts: Counter[str] = Counter()  # sent, received, unsent, and every reason of a `Refusal`
        self._sealer = sealer
        self._opener = opener
        self.tell: Callable[[Event], None] = events.publish
        self._clock = clock
        self._told_at: dict[tuple[Refusal, str], float] = {}
        self._socket = _bound(bind)
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._send_lock = threading.Lock()

    @property
    def address(self) -> Address:
        """Where it listens; the port is known also when any free one was asked for."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def send(self, to: str, address: Address, message: Message) -> None:
        """Send it or lose it: a network that does not take it now is one that lost it."""
        with self._send_lock:
            packet = self._sealer.seal(to, message)
            try:
                self._socket.sendto(packet, address)
            except OSError:  # no route, no buffer: also a closed port of an earlier packet is told here
                self.counts["unsent"] += 1
                return
            self.counts["sent"] += 1

    def receive(self, timeout_s: float) -> list[Received]:
        """What has come; waits for the first until the time is over or somebody calls `wake`."""
        ready = {fd for fd, _ in self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))}
        if self._woken.fileno() in ready:
            _drain(self._woken)
        received: list[Received] = []
        for _ in range(MOST_AT_ONCE):
            try:
                packet, address = self._socket.recvfrom(LONGEST_PACKET + 1)
            except BlockingIOError:
                break
            except OSError:  # the port to which an earlier packet went is closed
                continue
            self._take(packet, address[:2], received)
        return received

    def wake(self) -> None:
        """End a `receive` that waits."""
        try:
            self._waker.send(b"\0", socket.MSG_DONTWAIT)
        except OSError:  # it is full of wake-ups already, or closed
            return

    def close(self) -> None:
        for each in (self._socket, self._waker, self._woken):
            each.close()

    def _take(self, packet: bytes, address: Address, received: list[Received]) -> None:
        opened = self._opener.open(packet, self._clock.monotonic())
        if isinstance(opened, Letter):
            self.counts["received"] += 1
            received.append(Received(opened.sender, address, opened.message))
            return
        self.counts[opened.value] += 1
        if opened in TOLD:
            self._tell(opened, address)

    def _tell(self, refusal: Refusal, address: Address) -> None:
        """One event for each reason and host in a while: whoever floods us must not flood the events."""
        now = self._clock.monotonic()
        self._told_at = {key: at for key, at in self._told_at.items() if now - at < TOLD_EVERY_S}
        if (refusal, address[0]) in self._told_at or len(self._told_at) >= MOST_AT_ONCE:
            return
        self._told_at[refusal, address[0]] = now
        data = {"reason": refusal.value, "port": address[1], "dropped": self.counts[refusal.value]}
        why = f"{_WHAT_TO_DO[refusal]} (from {address[0]}:{address[1]})"
        self.tell(Event(EventKind.PACKETS_REFUSED, address[0], why=why, data=data))


_WHAT_TO_DO = {
    Refusal.VERSION: "a packet of another version of the protocol: bring all hosts to the same version of Towpath",
    Refusal.CLUSTER: "a packet of another cluster: two clusters share a port; give one of them other ports",
    Refusal.SECRET: "a packet made with another secret: set the same supervision secret on all hosts",
    Refusal.RECEIVER: "a packet for another receiver: the list of peers must be in the same order on all hosts",
}


def _bound(bind: Address) -> socket.socket:
    made = None
    try:
        family, kind, proto, _, address = socket.getaddrinfo(*bind, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        made.bind(address)
    except OSError as error:
        if made is not None:
            made.close()
        where = f"{bind[0]}:{bind[1]} (UDP)"
        raise BadSettings(f"cannot listen on {where}: {error}; choose another address of this host, or port") from error
    return made


def _drain(woken: socket.socket) -> None:
    try:
        while woken.recv(4096):
            pass
    except BlockingIOError:
        return
