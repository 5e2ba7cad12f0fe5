"""Data sets, complaints and notices: what is asked of them, and how they are shown as JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from pydantic import BaseModel, Field

from towpath.blocks.rule import BlockAction
from towpath.catalog.complaints.service import LONGEST, LONGEST_REPLY
from towpath.catalog.complaints.store import Complaint, NewComplaint
from towpath.catalog.data_sets.store import DataSet, Lineage
from towpath.desk.masks import MASK, Masks
from towpath.errors import NotDelivered
from towpath.notify.model import StoredNotice, TargetDelivery
from towpath.notify.service import NotificationTarget, NotifyService
from towpath.operations.access import Until
from towpath.operations.model import LARGEST, Item, Reason, RequestBody

Reply = Annotated[str, Field(min_length=1, max_length=LONGEST_REPLY, description="What its reader may be told.")]


class Complained(RequestBody):
    """What a reader says about a document."""

    target: str = Field(
        min_length=1, max_length=LONGEST["target"], description="The index, table or output that it is in."
    )
    document: str = Field(min_length=1, max_length=LONGEST["document"], description="The id of the document.")
    text: str = Field(min_length=1, max_length=LONGEST["said"], description="What is wrong with it.")
    contact: str | None = Field(
        None, min_length=1, max_length=LONGEST["contact"], description="Where you can be reached."
    )
    flow: str | None = Field(None, min_length=1, max_length=LONGEST["flow"], description="The flow, if it is known.")

    def value(self) -> NewComplaint:
        return NewComplaint(self.target, self.document, self.text, self.contact, self.flow)


class Linked(Reason):
    """The record that the document was made from."""

    topic: str = Field(min_length=1, max_length=300)
    partition: int = Field(ge=0, le=LARGEST)
    offset: int = Field(ge=0, le=LARGEST)


class Dismissed(Reason):
    """Nothing is to be done."""

    reply: Reply


class Blocked(Reason):
    """Records of its key are kept out from now on."""

    until: Until
    action: BlockAction = Field(BlockAction.IGNORE, description="What becomes of such records.")
    approved_by: str | None = Field(None, max_length=300, description="Who answers for the rule, if not you.")
    reply: Reply | None = None


class Rerun(Reason):
    """Its record is sent again."""

    reply: Reply | None = None


def complaint_item(found: Complaint, *, shows_contact: bool = True) -> Item:
    """Who may not act on it need not know who has made it."""
    about, origin = found.about, found.origin
    return {
        "number": found.number,
        "state": found.state,
        "target": about.target,
        "document": about.document,
        "flow": about.flow,
        "text": about.said,
        "contact": about.contact if shows_contact else None,
        "made_by": found.made_by,
        "made_at": found.made_at,
        "record": None
        if origin is None
        else {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        "taken_by": found.taken_by,
        "taken_at": found.taken_at,
        "outcome": found.outcome,
        "rule": found.rule,
        "settled_by": found.settled_by,
        "settled_at": found.settled_at,
        "why": found.why,
        "reply": found.reply,
    }


def data_set_item(found: DataSet) -> Item:
    return {
        "id": found.id,
        "kind": found.kind,
        "subject": found.subject,
        "origin": found.origin,
        "place": found.place,
        "state": found.state,
        "records": found.records,
        "bytes": found.bytes,
        "facts": dict(found.facts),
        "reason": found.reason,
        "begun_at": found.begun_at,
        "ready_at": found.ready_at,
        "deleted_at": found.deleted_at,
    }


def lineage_item(lineage: Lineage) -> Item:
    """One of them with its family."""
    return {
        **data_set_item(lineage.data_set),
        "parents": [data_set_item(each) for each in lineage.parents],
        "children": [data_set_item(each) for each in lineage.children],
    }


class TargetTrial(BaseModel):
    """Whether a target has taken a message for trial, and under which id; if it has not, why."""

    target: str
    is_delivered: bool
    id: str | None
    reason: str | None


def tried(notify: NotifyService, target: str) -> TargetTrial:
    """Send one message for trial, at once."""
    try:
        return TargetTrial(target=target, is_delivered=True, id=notify.try_out(target), reason=None)
    except NotDelivered as error:
        return TargetTrial(target=target, is_delivered=False, id=None, reason=str(error))


def notice_item(notice: StoredNotice, masks: Masks) -> Item:
    return asdict(seen(notice, masks))


def seen(notice: StoredNotice, masks: Masks) -> StoredNotice:
    """What is said of a group quotes its title, which is the message of an error."""
    said = notice.data.get("title")
    if not (isinstance(said, str) and said and masks.of(str(notice.data.get("flow", "")))):
        return notice
    return replace(notice, title=notice.title.replace(said, MASK), data={**notice.data, "title": MASK})


def target_item(target: NotificationTarget, delivery: TargetDelivery) -> Item:
    return {**asdict(target), "delivery": asdict(delivery)}
