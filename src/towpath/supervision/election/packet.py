"""Datagrams between peers and processes: versioned, length-checked, authenticated, and taken once.

    magic 2 | version 1 | kind 1 | length 2 | cluster 8 | boot 8 | counter 8
    n 1, sender n | m 1, receiver m | body | tag 16

All numbers are big-endian. The tag is the first half of an HMAC-SHA256 over all that comes before, with a key made of
the shared secret and the name of the cluster. Boot is the time at which the sender started, the counter counts its
packets: a packet that was seen before, or is of an earlier boot than the newest one heard, is a replay.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import struct
from dataclasses import dataclass
from enum import StrEnum

from towpath.supervision.election.messages import Malformed, Message, decode_message, encode_message

WINDOW = 1024  # packets may overtake each other by so many
QUIET_S = 30.0  # a newer boot that is silent for so long does not rule out an older one: a clock may have been set back
MOST_SENDERS = 4096  # the longest silent are forgotten first
MAGIC = b"TP"
VERSION = 1
LONGEST_PACKET = 1200  # fits into one frame of any network
LONGEST_NAME = 100
TAG_LENGTH = 16
SHORTEST_SECRET = 16
_HEAD = struct.Struct("!2sBBH8sQQ")
_SHORTEST_PACKET = _HEAD.size + 2 + TAG_LENGTH


class PacketSealer:
    """Makes the packets of one sender."""

    def __init__(self, secret: str, cluster: str, me: str, boot: int) -> None:
        """`boot` is a number that is higher at each start of this sender: the time of its start."""
        self.me = me
        self._key = _key(secret, cluster)
        self._cluster = _cluster_id(cluster)
        self._boot = boot
        self._sender = _name(me)
        self._counter = itertools.count(1)

    def seal(self, to: str, message: Message) -> bytes:
        kind, body = encode_message(message)
        rest = self._sender + _name(to) + body
        length = _HEAD.size + len(rest) + TAG_LENGTH
        head = _HEAD.pack(MAGIC, VERSION, kind, length, self._cluster, self._boot, next(self._counter))
        return head + rest + _tag(self._key, head + rest)


class PacketOpener:
    """Opens packets that are meant for one receiver. Not for several threads at once."""

    def __init__(self, secret: str, cluster: str, me: str) -> None:
        self._key = _key(secret, cluster)
        self._cluster = _cluster_id(cluster)
        self._me = _name(me)
        self._replays = ReplayWindow()

    def open(self, packet: bytes, now: float) -> OpenedPacket | PacketRefusal:
        """What is in it, or why it is dropped."""
        refusal = self._check_outside(packet)
        if refusal is not None:
            return refusal
        _, _, kind, _, _, boot, counter = _HEAD.unpack_from(packet)
        if not hmac.compare_digest(_tag(self._key, packet[:-TAG_LENGTH]), packet[-TAG_LENGTH:]):
            return PacketRefusal.SECRET
        try:
            sender, rest = _cut_name(packet[_HEAD.size : -TAG_LENGTH])
            is_mine = rest.startswith(self._me)
            message = decode_message(kind, _cut_name(rest)[1])
        except (Malformed, UnicodeDecodeError):
            return PacketRefusal.MALFORMED
        if not is_mine:
            return PacketRefusal.RECEIVER
        return (
            OpenedPacket(sender, message)
            if self._replays.is_new(sender, boot, counter, now)
            else PacketRefusal.REPLAYED
        )

    def _check_outside(self, packet: bytes) -> PacketRefusal | None:
        """What can be told without the secret."""
        if len(packet) > LONGEST_PACKET:
            return PacketRefusal.OVERSIZED
        if packet[:2] != MAGIC[: len(packet)]:
            return PacketRefusal.MALFORMED
        if len(packet) < _SHORTEST_PACKET:
            return PacketRefusal.TRUNCATED
        _, version, _, length, cluster, _, _ = _HEAD.unpack_from(packet)
        if version != VERSION:
            return PacketRefusal.VERSION
        if length != len(packet):
            return PacketRefusal.TRUNCATED if length > len(packet) else PacketRefusal.OVERSIZED
        return None if cluster == self._cluster else PacketRefusal.CLUSTER


@dataclass(frozen=True, slots=True)
class OpenedPacket:
    """A packet that is what it says it is."""

    sender: str
    message: Message


class PacketRefusal(StrEnum):
    """Why a packet is dropped."""

    TRUNCATED = "truncated"  # shorter than it says, or than any packet
    OVERSIZED = "oversized"  # longer than it says, or than any packet may be
    MALFORMED = "malformed"  # it is no packet of ours
    VERSION = "other version"  # its sender speaks another version of this protocol
    CLUSTER = "other cluster"  # its sender belongs to a cluster of another name
    SECRET = "wrong secret"  # its tag is not made with our secret  # noqa: S105 - a reason, not a secret
    RECEIVER = "other receiver"  # it is meant for somebody else: addresses are mixed up
    REPLAYED = "replayed"  # it was seen before, or is of an earlier life of its sender


class ReplayWindow:
    """A window of counters for every sender, as IPsec has it."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def is_new(self, sender: str, boot: int, counter: int, now: float) -> bool:
        """Whether this packet has not come before; it has from now on."""
        seen = self._seen.pop(sender, None)
        if seen is None or boot > seen.boot or (boot < seen.boot and now - seen.heard_at > QUIET_S):
            self._seen[sender] = _Seen(boot, counter, 1, now)
            self._forget()
            return True
        self._seen[sender] = seen  # last in the order, since it was heard last
        if boot < seen.boot or not self._note(seen, counter):
            return False
        seen.heard_at = now
        return True

    def _note(self, seen: _Seen, counter: int) -> bool:
        ahead = counter - seen.highest
        if ahead > 0:
            seen.bits = ((seen.bits << ahead) | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
            seen.highest = counter
            return True
        bit = 1 << -ahead
        if -ahead >= WINDOW or seen.bits & bit:
            return False
        seen.bits |= bit
        return True

    def _forget(self) -> None:
        if len(self._seen) > MOST_SENDERS:
            del self._seen[next(iter(self._seen))]


@dataclass(slots=True)
class _Seen:
    """The newest life of a sender: its highest counter, and which of the last `WINDOW` below it have come."""

    boot: int
    highest: int
    bits: int
    heard_at: float


def _key(secret: str, cluster: str) -> bytes:
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"the secret of the peers has {len(secret)} characters; take at least {SHORTEST_SECRET}")
    return hmac.digest(secret.encode(), b"towpath supervision " + cluster.encode(), "sha256")


def _cluster_id(cluster: str) -> bytes:
    return hashlib.sha256(cluster.encode()).digest()[:8]


def _tag(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")[:TAG_LENGTH]


def _name(name: str) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) <= LONGEST_NAME:
        raise ValueError(f"a name on the network has 1 to {LONGEST_NAME} bytes: {name!r}")
    return bytes([len(encoded)]) + encoded


def _cut_name(data: bytes) -> tuple[str, bytes]:
    end = 1 + data[0] if data else 1
    if not 1 < end <= min(len(data), 1 + LONGEST_NAME):
        raise Malformed("a name ends before the packet does")
    return data[1:end].decode(), data[end:]
