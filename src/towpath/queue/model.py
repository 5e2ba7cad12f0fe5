"""Messages, drafts, answers and selections, and the message that the current thread is handling.

Everything that is sent while a message is handled carries its id, and its handler can ask whether it was aborted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from towpath.core.clock import to_datetime
from towpath.db.database import Row
from towpath.errors import BadValue
from towpath.queue.states import MessageState

_UNREAD: Any = object()
_STATES = {state.value: state for state in MessageState}
_current: ContextVar[Handling | None] = ContextVar("towpath_handling", default=None)


@dataclass(slots=True)
class Message:
    """One message as it stood when it was read. A value: changing it changes nothing in the queue."""

    seq: int
    id: str
    related_id: str | None
    audit_id: str | None
    inbox: str
    reply_to: str | None
    function: str
    payload_json: str
    headers_json: str
    state: MessageState
    owner: str | None
    owner_tick: int | None
    attempts: int
    give_backs: int
    deliver_after_us: int | None
    ttl_s: float | None
    expires_us: int | None
    reason: str | None
    created_us: int
    updated_us: int
    _payload: Any = field(default=_UNREAD, repr=False, compare=False)

    @property
    def payload(self) -> Any:
        """The payload, read from its JSON when first asked for."""
        if self._payload is _UNREAD:
            self._payload = json.loads(self.payload_json)
        return self._payload

    @property
    def headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = json.loads(self.headers_json)
        return headers

    @property
    def expects_answer(self) -> bool:
        return self.reply_to is not None

    @property
    def failures(self) -> int:
        """How often it was claimed and neither finished nor given back."""
        return self.attempts - self.give_backs

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.created_us)

    @property
    def updated_at(self) -> datetime:
        return to_datetime(self.updated_us)

    @property
    def deliver_after(self) -> datetime | None:
        return None if self.deliver_after_us is None else to_datetime(self.deliver_after_us)

    @classmethod
    def from_row(cls, row: Row) -> Message:
        message = cls(*row)
        message.state = _STATES[row[9]]
        return message


class Draft(NamedTuple):
    """A message that has been checked and is ready to be written."""

    id: str
    inbox: str
    function: str
    payload_json: str
    headers_json: str = "{}"
    reply_to: str | None = None
    related_id: str | None = None
    audit_id: str | None = None
    delay_us: int | None = None
    ttl_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request: OK or ERR, and what the handler said."""

    state: MessageState
    payload: Any
    message_id: str

    @property
    def is_ok(self) -> bool:
        return self.state is MessageState.OK


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Returned by a handler that cannot do its work now: the message waits again, and no attempt is burnt."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MessageSelection:
    """The filter of a list: every field that is given must match; None matches everything."""

    inbox: str | None = None
    state: MessageState | None = None
    function: str | None = None
    owner: str | None = None  # who has it, or had it last
    since: datetime | None = None  # sent at this time or later
    until: datetime | None = None  # sent before this time

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            time: datetime | None = getattr(self, name)
            if time is not None and time.tzinfo is None:
                raise BadValue(f"{name}: a time needs its zone")


@dataclass(frozen=True, slots=True)
class Handling:
    """A message that a handler is working on."""

    message: Message
    aborted: threading.Event = field(default_factory=threading.Event)


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
