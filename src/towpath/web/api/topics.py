"""Topics: their partitions, the groups that read them, and their records."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from towpath.operations.model import LARGEST, Item, NamedPage
from towpath.operations.topics import read_some, record_item, record_mask, topic_item, topic_view
from towpath.web.auth import Reader, runtime_of
from towpath.web.failures import PREFIX, Limit

router = APIRouter(prefix=f"{PREFIX}/topics", tags=["topics"])

TopicName = Annotated[str, Path(max_length=300)]


class RecordPage(BaseModel):
    """Records of a partition, by offset."""

    items: list[Item]
    start: int = Field(description="The first offset that the partition still has.")
    end: int = Field(description="The offset after its last one.")
    next: int | None = Field(description="Ask for the next page with this as `offset`; null: these are the last ones.")
    is_masked: bool = Field(description="Whether something may be hidden from you.")


@router.get("")
def topics(
    request: Request,
    principal: Reader,
    limit: Limit = 100,
    after: Annotated[str, Query(max_length=300, description="Go on where a page ended: its `next`.")] = "",
) -> NamedPage[Item]:
    """Topics, by name. Offsets have holes, so `records_at_most` is no count."""
    log = runtime_of(request).log
    found = sorted(log.topics(), key=lambda topic: topic.name)
    rest = found[bisect_right([topic.name for topic in found], after) :]
    items = [topic_item(log, topic) for topic in rest[:limit]]
    return NamedPage(items=items, next=rest[limit - 1].name if len(rest) > limit else None)


@router.get("/{topic}")
def show(request: Request, topic: TopicName, principal: Reader) -> Item:
    """One topic: its partitions with their offsets, and the groups that read it with what they have still to read."""
    log = runtime_of(request).log
    return topic_view(log, log.topic(topic))


@router.get("/{topic}/records")
def records(
    request: Request,
    topic: TopicName,
    principal: Reader,
    partition: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    offset: Annotated[int | None, Query(ge=0, le=LARGEST, description="Without it: the last ones.")] = None,
    limit: Limit = 100,
) -> RecordPage:
    """Records of a partition as they are: UTF-8 is text, other bytes are `{"base64": "…"}`."""
    runtime = runtime_of(request)
    log = runtime.log
    log.topic(topic).check_partition(partition)
    end, start = log.ends(topic)[partition], log.starts(topic)[partition]
    masks = runtime.desk.masks_for(principal.role)
    shown = record_mask(runtime, topic, masks)
    first = max(start, end - limit) if offset is None else offset
    found = read_some(log, topic, partition, first, end, limit)
    next_ = found[-1].offset + 1 if found else end
    return RecordPage(
        items=[record_item(shown(each)) for each in found],
        start=start,
        end=end,
        next=next_ if next_ < end else None,
        is_masked=bool(masks),
    )
