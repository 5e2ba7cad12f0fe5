"""What peers and watched processes say to each other, and how it stands in a packet.

A question carries a number that its asker gave it, and an answer carries the number of its question. So an answer
proves only what was true after its question was asked: a late one saves nobody.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

_RANK = struct.Struct("!Q?HH")
_QUESTION = struct.Struct("!I")
_PEER = struct.Struct("!H")
_HEARTBEAT = struct.Struct("!I?")
_OK = struct.Struct("!IQ")
_PING = struct.Struct("!Q")
_PONG = struct.Struct("!QQ")
_NOBODY = 0


class Rank(NamedTuple):
    """By what two leaders find out which of them surrenders: the lower one, field by field."""

    term: int  # the term under which it acts; 0: it does not act
    is_fit: bool  # it reaches the database, so it can act
    size: int  # members of its group, itself among them
    peer: int  # equal sizes are decided by the higher number


@dataclass(frozen=True, slots=True)
class Invite:
    """Join my group, if it ranks higher than yours. Answered by `Accept` or `Reject`."""

    question: int
    rank: Rank


@dataclass(frozen=True, slots=True)
class Accept:
    """I join your group with those who followed me. Answered only by one that leads no group, with `Reject`."""

    question: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reject:
    """No. The leader that I know (none: busy, ask later), and its rank when it is myself."""

    question: int
    leader: int | None
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """I have surrendered, or I leave: follow this one."""

    leader: int


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """A member asks its coordinator whether it lives. Answered by `Ok`, or `Reject` by who is not the coordinator."""

    question: int
    is_fit: bool


@dataclass(frozen=True, slots=True)
class Ok:
    """I live and lead your group, under this term (0: none yet)."""

    question: int
    term: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The coordinator asks a watched process whether it lives."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Pong:
    """It does, and this is its launch."""

    nonce: int
    launch: int


Message = Invite | Accept | Reject | LeaderChange | MemberHeartbeat | Ok | Ping | Pong


@dataclass(frozen=True, slots=True)
class Send:
    """A message that is to go to a peer."""

    to: int
    message: Message


class Malformed(ValueError):
    """These bytes are no message."""


def encode_message(message: Message) -> tuple[int, bytes]:
    """Its kind and its bytes."""
    match message:
        case Invite(question, rank):
            return 1, _QUESTION.pack(question) + _RANK.pack(*rank)
        case Accept(question, members):
            return 2, _QUESTION.pack(question) + struct.pack(f"!{len(members)}H", *members)
        case Reject(question, leader, rank):
            tail = b"" if rank is None else _RANK.pack(*rank)
            return 3, _QUESTION.pack(question) + _PEER.pack(leader or _NOBODY) + tail
        case LeaderChange(leader):
            return 4, _PEER.pack(leader)
        case MemberHeartbeat(question, is_fit):
            return 5, _HEARTBEAT.pack(question, is_fit)
        case Ok(question, term):
            return 6, _OK.pack(question, term)
        case Ping(nonce):
            return 7, _PING.pack(nonce)
        case Pong(nonce, launch):
            return 8, _PONG.pack(nonce, launch)


def decode_message(kind: int, body: bytes) -> Message:
    """The message; raises `Malformed`."""
    decode = _DECODERS.get(kind)
    if decode is None:
        raise Malformed(f"no message has kind {kind}")
    try:
        return decode(body)
    except struct.error as error:
        raise Malformed(f"a message of kind {kind} is not {len(body)} bytes long") from error


def _invite(body: bytes) -> Message:
    return Invite(_QUESTION.unpack(body[:4])[0], _rank(body[4:]))


def _accept(body: bytes) -> Message:
    members = struct.unpack(f"!{len(body[4:]) // 2}H", body[4:])
    return Accept(_QUESTION.unpack(body[:4])[0], tuple(_peer(number) for number in members))


def _reject(body: bytes) -> Message:
    rank = _rank(body[6:]) if len(body) > 6 else None
    return Reject(_QUESTION.unpack(body[:4])[0], _PEER.unpack(body[4:6])[0] or None, rank)


def _rank(body: bytes) -> Rank:
    term, is_fit, size, peer = _RANK.unpack(body)
    _true_or_false(body[8])
    return Rank(term, is_fit, size, _peer(peer))


def _heartbeat(body: bytes) -> Message:
    question, is_fit = _HEARTBEAT.unpack(body)
    _true_or_false(body[4])
    return MemberHeartbeat(question, is_fit)


def _peer(number: int) -> int:
    if number == _NOBODY:
        raise Malformed("peers are numbered from 1")
    return number


def _true_or_false(byte: int) -> None:
    if byte > 1:
        raise Malformed(f"{byte} is neither true nor false")


_DECODERS: dict[int, Callable[[bytes], Message]] = {
    1: _invite,
    2: _accept,
    3: _reject,
    4: lambda body: LeaderChange(_peer(_PEER.unpack(body)[0])),
    5: _heartbeat,
    6: lambda body: Ok(*_OK.unpack(body)),
    7: lambda body: Ping(*_PING.unpack(body)),
    8: lambda body: Pong(*_PONG.unpack(body)),
}
