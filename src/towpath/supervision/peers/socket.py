"""The UDP socket of a peer or process, the secret that signs its packets, and the names and addresses of hosts.

The socket takes only packets of its own cluster, and counts what it drops by reason.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from towpath.core.clock import Clock
from towpath.core.events import Event, EventKind, Events
from towpath.errors import BadSettings
from towpath.settings import Settings, SupervisionSettings
from towpath.supervision.election.messages import Message
from towpath.supervision.election.packet import (
    LONGEST_PACKET,
    SHORTEST_SECRET,
    OpenedPacket,
    PacketOpener,
    PacketRefusal,
    PacketSealer,
)

MOST_AT_ONCE = 256  # packets between two looks at the clock
TOLD_EVERY_S = 60.0  # of one reason and one sender
TOLD = frozenset(
    {PacketRefusal.VERSION, PacketRefusal.CLUSTER, PacketRefusal.SECRET, PacketRefusal.RECEIVER}
)  # somebody has to set it right
Address = tuple[str, int]
SQLITE_PREFIX = "sqlite:///"
DEFAULT_FILE = Path(".towpath/secret")
BYTES = 32


class UdpSocket:
    """Sends and receives sealed messages. One thread receives; any thread may send and wake."""

    def __init__(self, bind: Address, sealer: PacketSealer, opener: PacketOpener, events: Events, clock: Clock) -> None:
        self.counts: Counter[str] = Counter()  # sent, received, unsent, and every `PacketRefusal`
        self._sealer = sealer
        self._opener = opener
        self.tell: Callable[[Event], None] = events.publish
        self._clock = clock
        self._told_at: dict[tuple[PacketRefusal, str], float] = {}
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

    def receive(self, timeout_s: float) -> list[ReceivedMessage]:
        """What has come; waits for the first until the time is over or somebody calls `wake`."""
        ready = {fd for fd, _ in self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))}
        if self._woken.fileno() in ready:
            _drain(self._woken)
        received: list[ReceivedMessage] = []
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

    def _take(self, packet: bytes, address: Address, received: list[ReceivedMessage]) -> None:
        opened = self._opener.open(packet, self._clock.monotonic())
        if isinstance(opened, OpenedPacket):
            self.counts["received"] += 1
            received.append(ReceivedMessage(opened.sender, address, opened.message))
            return
        self.counts[opened.value] += 1
        if opened in TOLD:
            self._tell(opened, address)

    def _tell(self, refusal: PacketRefusal, address: Address) -> None:
        """One event for each reason and host in a while: whoever floods us must not flood the events."""
        now = self._clock.monotonic()
        self._told_at = {key: at for key, at in self._told_at.items() if now - at < TOLD_EVERY_S}
        if (refusal, address[0]) in self._told_at or len(self._told_at) >= MOST_AT_ONCE:
            return
        self._told_at[refusal, address[0]] = now
        data = {"reason": refusal.value, "port": address[1], "dropped": self.counts[refusal.value]}
        why = f"{_WHAT_TO_DO[refusal]} (from {address[0]}:{address[1]})"
        self.tell(Event(EventKind.PACKETS_REFUSED, address[0], why=why, data=data))


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message, who sent it, and from where."""

    sender: str
    address: Address
    message: Message


_WHAT_TO_DO = {
    PacketRefusal.VERSION: (
        "a packet of another version of the protocol: bring all hosts to the same version of Towpath"
    ),
    PacketRefusal.CLUSTER: "a packet of another cluster: two clusters share a port; give one of them other ports",
    PacketRefusal.SECRET: "a packet made with another secret: set the same supervision secret on all hosts",
    PacketRefusal.RECEIVER: "a packet for another receiver: the list of peers must be in the same order on all hosts",
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


def open_ping_socket(settings: Settings, name: str, events: Events, clock: Clock, port: int = 0) -> UdpSocket:
    """A socket on which `name`, a duty, speaks with peers; on any free port if none is given."""
    secret, cluster = secret_of(settings), settings.supervision.cluster
    sealer = PacketSealer(secret, cluster, name, boot=time.time_ns())
    bind = settings.supervision.listen, port
    return UdpSocket(bind, sealer, PacketOpener(secret, cluster, name), events, clock)


def told_address(settings: Settings, udp: UdpSocket) -> str:
    """Under which others reach it."""
    host, port = udp.address
    return written_address(settings.supervision.address or host, port)


def written_address(host: str, port: int) -> str:
    """As it stands in a process row."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def this_host(settings: SupervisionSettings) -> str:
    """Its label."""
    return settings.host or socket.gethostname()


def all_hosts(settings: SupervisionSettings) -> list[str]:
    """The labels of all machines; the first one has what is said to run on no other."""
    return settings.hosts or [this_host(settings)]


def host_of_peer(settings: SupervisionSettings, number: int) -> str:
    """On which machine a peer runs; they are dealt out in turn."""
    hosts = all_hosts(settings)
    return hosts[(number - 1) % len(hosts)]


def peer_name(number: int) -> str:
    """The duty of a peer."""
    return f"peer-{number}"


def secret_of(settings: Settings) -> str:
    """The one in the settings, or that in the file; the file is made when it is missing."""
    if settings.supervision.secret:
        return _checked(settings.supervision.secret, "supervision.secret")
    path = secret_file(settings)
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def secret_file(settings: Settings) -> Path:
    """Where the secret is when it is not in the settings."""
    if settings.supervision.secret_file:
        return Path(settings.supervision.secret_file).expanduser()
    url = settings.database.url
    if not url.startswith(SQLITE_PREFIX):
        return DEFAULT_FILE
    database = Path(url.removeprefix(SQLITE_PREFIX)).expanduser()
    return database.with_name(database.name + "-secret")


def _read(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise BadSettings(f"{path} holds a secret and can be read by others; type: chmod 600 {path}")
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"the secret in {path} cannot be read: {error}") from error
    return _checked(text, str(path))


def _checked(text: str, place: str) -> str:
    if len(text) < SHORTEST_SECRET:
        raise BadSettings(f"{place} has {len(text)} characters; a secret needs at least {SHORTEST_SECRET}")
    return text


def _make(path: Path) -> None:
    """Under its name only when it is whole; of several that make it at once one wins, and all read that one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(BYTES) + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as error:
        raise BadSettings(
            f"the secret cannot be written to {path}: {error.strerror}; set supervision.secret"
        ) from error
