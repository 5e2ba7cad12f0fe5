"""The queue: messages, inboxes and events as the command line and the API show them, and what is asked of messages.

Payloads, reasons and details of messages and events quote records, and nobody can say where in them a masked field is.
So whoever may not see all fields of some flow's records sees none of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field, model_validator

from towpath.core.clock import to_datetime
from towpath.core.exact_json import Exact
from towpath.db.event_log import StoredEvent
from towpath.desk.masks import MASK
from towpath.operations.model import LARGEST, LONGEST_DELAY_S, MOST_ROWS, Item, RequestBody, Why
from towpath.queue.model import MessageSelection
from towpath.queue.payload import LONGEST_NAME
from towpath.queue.states import MessageState

if TYPE_CHECKING:
    from towpath.desk.masks import Masks
    from towpath.queue.browser import InboxCounts, MessageView
    from towpath.queue.model import Message


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Headers = Annotated[dict[str, Any], Field(description="By name.")]


class ChosenMessages(RequestBody):
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

    def selection(self) -> MessageSelection:
        return MessageSelection(self.inbox, self.state, self.function, self.owner, self.since, self.until)


class NewMessage(RequestBody):
    """A message to be sent."""

    inbox: Name
    function: Name
    payload: Any = None
    headers: Headers = Field(default_factory=dict)
    delay_s: float | None = Field(None, ge=0, le=LONGEST_DELAY_S, description="Nobody is given it before.")
    ttl_s: float | None = Field(
        None, gt=0, le=LONGEST_DELAY_S, description="It is DEAD when nobody has taken it in this time."
    )
    reply: bool = Field(False, description="An answer is expected; it comes to the inbox `operator//reply`.")
    why: Why


class ReplyRequest(RequestBody):
    """An answer in a handler's place."""

    payload: Any
    why: Why


class Copied(RequestBody):
    """A message to be sent anew: as it is stored, or with another payload."""

    payload: Any = None
    why: Why

    @property
    def changed_payload(self) -> Any:
        return _payload_of(self)


class EditedMessage(RequestBody):
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
        return _payload_of(self)


def _payload_of(sent: Copied | EditedMessage) -> Any:
    """`...` when it was not sent: null is a payload, too."""
    return sent.payload if "payload" in sent.model_fields_set else ...


class MovedMessage(RequestBody):
    """Another state for a message."""

    state: MessageState
    why: Why


class Reaped(BaseModel):
    """How many messages had outlived their time, and are DEAD now."""

    expired: int


class Cleaned(BaseModel):
    """How much was deleted of what."""

    deleted: dict[str, int]


def message_shown(message: Message, masks: Masks) -> Item:
    return reason_hidden(message_item(message, hidden)) if masks else message_item(message, Exact)


def view_shown(view: MessageView, masks: Masks) -> Item:
    if not masks:
        return view_item(view, Exact)
    events = [event_shown(each, masks) for each in view.events]
    return {**reason_hidden(view_item(view, hidden)), "events": events}


def event_shown(event: StoredEvent, masks: Masks) -> Item:
    item = event_item(event)
    return {**item, "why": MASK, "data": MASK} if masks else item


def message_item(message: Message, read: Callable[[str], Any] = json.loads) -> Item:
    """A message, with what it says; `read` is given the JSON text of payload and headers."""
    return {
        **relative_item(message),
        "reply_to": message.reply_to,
        "payload": read(message.payload_json),
        "headers": read(message.headers_json),
        "owner": message.owner,
        "owner_tick": message.owner_tick,
        "attempts": message.attempts,
        "give_backs": message.give_backs,
        "deliver_after": message.deliver_after,
        "ttl_s": message.ttl_s,
        "expires_at": None if message.expires_us is None else to_datetime(message.expires_us),
        "reason": message.reason,
        "updated_at": message.updated_at,
    }


def view_item(view: MessageView, read: Callable[[str], Any] = json.loads) -> Item:
    """A message with what belongs to it and what happened to it."""
    return {
        **message_item(view.message, read),
        "related": [relative_item(each) for each in view.tree if each.id != view.message.id],
        "events": [event_item(each) for each in view.events],
    }


def relative_item(message: Message) -> Item:
    """What places a message among others, without what it says."""
    return {
        "seq": message.seq,
        "id": message.id,
        "related_id": message.related_id,
        "audit_id": message.audit_id,
        "inbox": message.inbox,
        "function": message.function,
        "state": message.state,
        "created_at": message.created_at,
    }


def inbox_item(inbox: InboxCounts) -> Item:
    """An inbox; under `more` the states of which there are, or may be, more than counted."""
    return {
        "name": inbox.name,
        "counts": {state.value: inbox.counts.get(state, 0) for state in MessageState},
        "more": [state.value for state in MessageState if state in inbox.more],
        "oldest_new_at": inbox.oldest_new,
        "on_owner_death": inbox.on_owner_death,
        "max_attempts": inbox.max_attempts,
    }


def event_item(event: StoredEvent) -> Item:
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "subject": event.subject,
        "who": event.who,
        "why": event.why,
        "data": event.data,
    }


def hidden(text: str) -> str:
    """Instead of reading the JSON text of a payload."""
    return MASK


def reason_hidden(item: Item) -> Item:
    """An item without why something failed."""
    return item if item["reason"] is None else {**item, "reason": MASK}
