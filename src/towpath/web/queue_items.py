"""Messages and events as the API shows them: as the command line does with `--json`.

Who may not see all fields of some flow's records is shown no payloads, reasons and details either: they quote records,
and nobody can say where in them a field is.
"""

from __future__ import annotations

from typing import Any

from towpath.db.event_json import event_item
from towpath.db.event_log import StoredEvent
from towpath.desk.masking import MASK, Masks
from towpath.exact_json import Exact
from towpath.queue import Message
from towpath.queue.browser import MessageView
from towpath.queue.message_json import message_item, view_item
from towpath.web.desk_items import Item


def message_shown(message: Message, masks: Masks) -> Item:
    return _without_reason(message_item(message, _hidden)) if masks else message_item(message, Exact)


def view_shown(view: MessageView, masks: Masks) -> Item:
    if not masks:
        return view_item(view, Exact)
    events = [event_shown(each, masks) for each in view.events]
    return {**_without_reason(view_item(view, _hidden)), "events": events}


def event_shown(event: StoredEvent, masks: Masks) -> Item:
    item = event_item(event)
    return {**item, "why": MASK, "data": MASK} if masks else item


def _hidden(text: str) -> Any:
    return MASK


def _without_reason(item: Item) -> Item:
    return item if item["reason"] is None else {**item, "reason": MASK}
