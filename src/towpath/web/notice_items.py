"""What is shown of notices, and trying a target: the same for programs and on the page."""

from __future__ import annotations

from dataclasses import asdict, replace

from pydantic import BaseModel

from towpath.desk.masking import MASK, Masks
from towpath.errors import NotDelivered
from towpath.notify.delivery import Delivery
from towpath.notify.notice import StoredNotice
from towpath.notify.notify import Notify, Target
from towpath.web.desk_items import Item


class Tried(BaseModel):
    """Whether a target has taken a message for trial, and under which id; if it has not, why."""

    target: str
    is_delivered: bool
    id: str | None
    reason: str | None


def tried(notify: Notify, target: str) -> Tried:
    """Send one message for trial, at once."""
    try:
        return Tried(target=target, is_delivered=True, id=notify.try_out(target), reason=None)
    except NotDelivered as error:
        return Tried(target=target, is_delivered=False, id=None, reason=str(error))


def seen(notice: StoredNotice, masks: Masks) -> StoredNotice:
    """What is said of a group quotes its title, which is the message of an error."""
    said = notice.data.get("title")
    if not (isinstance(said, str) and said and masks.of(str(notice.data.get("flow", "")))):
        return notice
    return replace(notice, title=notice.title.replace(said, MASK), data={**notice.data, "title": MASK})


def notice_item(notice: StoredNotice, masks: Masks) -> Item:
    return asdict(seen(notice, masks))


def target_item(target: Target, delivery: Delivery) -> Item:
    return {**asdict(target), "delivery": asdict(delivery)}
