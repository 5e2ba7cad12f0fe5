"""Messages and inboxes for programs: one shape for the command line and the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from towpath.clock import to_datetime
from towpath.db.event_json import event_item
from towpath.queue.browser import MessageView
from towpath.queue.inbox_counts import InboxCounts
from towpath.queue.message import Message
from towpath.queue.state import MessageState


def message_item(message: Message, read: Callable[[str], Any] = json.loads) -> dict[str, Any]:
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


def relative_item(message: Message) -> dict[str, Any]:
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


def view_item(view: MessageView, read: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """A message with what belongs to it and what happened to it."""
    return {
        **message_item(view.message, read),
        "related": [relative_item(each) for each in view.tree if each.id != view.message.id],
        "events": [event_item(each) for each in view.events],
    }


def inbox_item(inbox: InboxCounts) -> dict[str, Any]:
    """An inbox; under `more` the states of which there are, or may be, more than counted."""
    return {
        "name": inbox.name,
        "counts": {state.value: inbox.counts.get(state, 0) for state in MessageState},
        "more": [state.value for state in MessageState if state in inbox.more],
        "oldest_new_at": inbox.oldest_new,
        "on_owner_death": inbox.on_owner_death,
        "max_attempts": inbox.max_attempts,
    }
