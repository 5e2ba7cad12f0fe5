"""The states of a message and every move between them. The chart in docs/reference/states.md is held equal to this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from towpath.errors import UnknownState


class MessageState(StrEnum):
    """Where a message is on its way."""

    NEW = "NEW"  # waiting to be claimed
    ACK = "ACK"  # claimed by an owner and being worked on
    OK = "OK"  # done
    ERR = "ERR"  # failed
    DEAD = "DEAD"  # nobody took it in time, or it was given up

    @classmethod
    def named(cls, text: str) -> MessageState:
        """The state of that name, in any case. Raises `UnknownState`."""
        try:
            return cls(text.upper())
        except ValueError as error:
            raise UnknownState(text, list(cls)) from error


class MessageMove(StrEnum):
    """What can happen to a message. The value is the label of its arrow in the chart."""

    CLAIM = "claimed"
    FINISH = "finished"
    FAIL = "failed"
    GIVE_UP = "given up"  # its owner died once too often, or its inbox's policy says so
    RELEASE = "given back"
    FREE = "owner died"
    EXPIRE = "ttl ran out"
    KILL = "killed"  # by a person, or by its sender
    REQUEUE = "sent again"  # by a person


@dataclass(frozen=True, slots=True)
class MessageArrow:
    """One move: from which states, to which."""

    sources: tuple[MessageState, ...]
    target: MessageState


_NEW, _ACK, _OK, _ERR, _DEAD = MessageState

MOVES: dict[MessageMove, MessageArrow] = {
    MessageMove.CLAIM: MessageArrow((_NEW,), _ACK),
    MessageMove.FINISH: MessageArrow((_ACK,), _OK),
    MessageMove.FAIL: MessageArrow((_ACK,), _ERR),
    MessageMove.GIVE_UP: MessageArrow((_ACK,), _DEAD),
    MessageMove.RELEASE: MessageArrow((_ACK,), _NEW),
    MessageMove.FREE: MessageArrow((_ACK,), _NEW),
    MessageMove.EXPIRE: MessageArrow((_NEW,), _DEAD),
    MessageMove.KILL: MessageArrow((_NEW, _ACK), _DEAD),
    MessageMove.REQUEUE: MessageArrow((_ACK, _OK, _ERR, _DEAD), _NEW),
}

TERMINAL = frozenset({_OK, _ERR, _DEAD})

# What a person may do to a message by naming the state it should be in.
BY_HAND: dict[MessageState, MessageMove] = {
    _NEW: MessageMove.REQUEUE,
    _OK: MessageMove.FINISH,
    _ERR: MessageMove.FAIL,
    _DEAD: MessageMove.KILL,
}


class OnOwnerDeath(StrEnum):
    """What becomes of a claimed message when its owner dies. Kept with the inbox, so that anyone can apply it."""

    AGAIN = "again"  # it waits again, until it has been tried `max_attempts` times, then DEAD
    ERR = "err"  # it failed; a request gets that answer
    DEAD = "dead"  # it is given up at once: for work that must never be done twice
