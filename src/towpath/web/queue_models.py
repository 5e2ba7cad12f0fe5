"""Which messages are meant, and what is to be done to them, as it is sent."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field, model_validator

from towpath.queue.payload import LONGEST_NAME
from towpath.queue.selection import Selection
from towpath.queue.state import MessageState
from towpath.web.model import LARGEST, MOST_ROWS, Sent, Why

LONGEST_WAIT_S = 10 * 365 * 86400.0

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Headers = Annotated[dict[str, Any], Field(description="By name.")]


class ChosenMessages(Sent):
    """A page of messages: all that is given must hold."""

    inbox: Name | None = None
    state: MessageState | None = None
    function: Name | None = None
    owner: Annotated[str, Field(min_length=1, max_length=300)] | None = Field(
        None, description="The process that has it, or had it last."
    )
    since: AwareDatetime | None = Field(None, description="Sent at this time or later.")
    until: AwareDatetime | None = Field(None, description="Sent before this time.")
    limit: int = Field(100, ge=1, le=MOST_ROWS, description="How many to show.")
    before: int | None = Field(None, ge=1, le=LARGEST, description="Go on where a page ended: its `next`.")

    def selection(self) -> Selection:
        return Selection(self.inbox, self.state, self.function, self.owner, self.since, self.until)


class NewMessage(Sent):
    """A message to be sent."""

    inbox: Name
    function: Name
    payload: Any = None
    headers: Headers = Field(default_factory=dict)
    delay_s: float | None = Field(None, ge=0, le=LONGEST_WAIT_S, description="Nobody is given it before.")
    ttl_s: float | None = Field(
        None, gt=0, le=LONGEST_WAIT_S, description="It is DEAD when nobody has taken it in this time."
    )
    reply: bool = Field(False, description="An answer is expected; it comes to the inbox `operator//reply`.")
    why: Why


class Answered(Sent):
    """An answer in a handler's place."""

    payload: Any
    why: Why


class Copied(Sent):
    """A message to be sent anew: as it is stored, or with another payload."""

    payload: Any = None
    why: Why

    @property
    def changed_payload(self) -> Any:
        return _given(self, "payload")


class EditedMessage(Sent):
    """Another payload for a message that waits, or other headers instead of all that it has, or both."""

    payload: Any = None
    headers: Headers | None = None
    seen: AwareDatetime = Field(description="`updated_at` of the message when it was read that was changed.")
    why: Why

    @model_validator(mode="after")
    def _changes_something(self) -> EditedMessage:
        if "payload" not in self.model_fields_set and self.headers is None:
            raise ValueError("say what to change: payload or headers")
        return self

    @property
    def changed_payload(self) -> Any:
        return _given(self, "payload")


class MovedMessage(Sent):
    """Another state for a message."""

    state: MessageState
    why: Why


class Reaped(BaseModel):
    """How many messages had outlived their time, and are DEAD now."""

    expired: int


class Cleaned(BaseModel):
    """How much was deleted of what."""

    deleted: dict[str, int]


def _given(sent: Sent, name: str) -> Any:
    """`...` for what was not said: null is something to say."""
    return getattr(sent, name) if name in sent.model_fields_set else ...
