"""Whether what a target was handed has reached it. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from towpath.queue.message import Message
from towpath.queue.state import MessageState

_WAITS = (MessageState.NEW, MessageState.ACK)
_GIVEN_UP = (MessageState.ERR, MessageState.DEAD)


@dataclass(frozen=True, slots=True)
class Delivery:
    """How it stands with the newest messages of one target."""

    waiting: int  # neither taken nor given up
    tries: int  # of the one among these that has failed most often: how often
    next_try_at: datetime | None
    error: str | None  # what the last try said, of what waits or was given up after the last that was taken
    delivered_at: datetime | None  # the last that was taken
    given_up_at: datetime | None  # the last that was given up, if none was taken since


def delivery(messages: Sequence[Message], errors: Mapping[str, str]) -> Delivery:
    """From the messages of a target, and what was said at the last tries, by the id of the message."""
    waiting = [each for each in messages if each.state in _WAITS]
    failing = [each for each in waiting if each.give_backs]
    taken = max((each.updated_at for each in messages if each.state is MessageState.OK), default=None)
    given_up = max(
        (each for each in messages if each.state in _GIVEN_UP and (taken is None or each.updated_at > taken)),
        key=lambda each: each.updated_at,
        default=None,
    )
    due = [each.deliver_after for each in failing if each.deliver_after is not None]
    return Delivery(
        waiting=len(waiting),
        tries=max((each.give_backs for each in failing), default=0),
        next_try_at=min(due, default=None),
        error=_error(failing, errors) or (None if given_up is None else given_up.reason),
        delivered_at=taken,
        given_up_at=None if given_up is None else given_up.updated_at,
    )


def _error(failing: Sequence[Message], errors: Mapping[str, str]) -> str | None:
    return next((errors[each.id] for each in failing if each.id in errors), None)
