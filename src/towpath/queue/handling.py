"""Which message this thread is handling: everything sent meanwhile carries its id, and it can ask to be stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from towpath.queue.message import Message


@dataclass(frozen=True, slots=True)
class Handling:
    """One message in the hands of one handler."""

    message: Message
    aborted: threading.Event = field(default_factory=threading.Event)


_current: ContextVar[Handling | None] = ContextVar("towpath_handling", default=None)


@contextmanager
def handling(work: Handling) -> Iterator[None]:
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)


def current_message_id() -> str | None:
    """The id of the message that is being handled here, if any."""
    work = _current.get()
    return work.message.id if work else None


def is_aborted() -> bool:
    """For long handlers: whether the message being handled was aborted, so that going on is of no use."""
    work = _current.get()
    return work is not None and work.aborted.is_set()
