"""What peers and watched processes say to each other.

A question carries a number that its asker gave it, and an answer carries the number of its question. So an answer
proves only what was true after its question was asked: a late one saves nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
class Change:
    """I have surrendered, or I leave: follow this one."""

    leader: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
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


Message = Invite | Accept | Reject | Change | Heartbeat | Ok | Ping | Pong


@dataclass(frozen=True, slots=True)
class Send:
    """A message that is to go to a peer."""

    to: int
    message: Message
