"""Messages as bytes and back. What does not fit exactly is malformed."""

from __future__ import annotations

import struct
from collections.abc import Callable

from towpath.supervision.messages import Accept, Change, Heartbeat, Invite, Message, Ok, Ping, Pong, Rank, Reject

_RANK = struct.Struct("!Q?HH")
_QUESTION = struct.Struct("!I")
_PEER = struct.Struct("!H")
_HEARTBEAT = struct.Struct("!I?")
_OK = struct.Struct("!IQ")
_PING = struct.Struct("!Q")
_PONG = struct.Struct("!QQ")
_NOBODY = 0


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
        case Change(leader):
            return 4, _PEER.pack(leader)
        case Heartbeat(question, is_fit):
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
    return Heartbeat(question, is_fit)


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
    4: lambda body: Change(_peer(_PEER.unpack(body)[0])),
    5: _heartbeat,
    6: lambda body: Ok(*_OK.unpack(body)),
    7: lambda body: Ping(*_PING.unpack(body)),
    8: lambda body: Pong(*_PONG.unpack(body)),
}
