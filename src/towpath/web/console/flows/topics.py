"""Topics: their partitions, who reads them, and their records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.core.clock import to_datetime
from towpath.desk.replay.lane import lane_topic
from towpath.errors import BadValue
from towpath.flow.stage.status import stage_statuses
from towpath.flow.topics import FlowTopics
from towpath.log.record import Record
from towpath.operations.topics import read_some, record_mask, topic_item, topic_view
from towpath.web.auth import Reader, runtime_of
from towpath.web.console.layout.filters import BodyView, body_view, key_text, link, visible
from towpath.web.console.layout.lists import utc_time, whole_of
from towpath.web.console.layout.page import page, went

if TYPE_CHECKING:
    from towpath.access.roles import Principal
    from towpath.runtime import Runtime


router = APIRouter(prefix="/topics", include_in_schema=False)

ROWS = 50
RECORDS = 25
PREVIEW_BYTES = 2_000  # of each record in a list


@dataclass(frozen=True, slots=True)
class RecordShown:
    """A record for a page."""

    record: Record
    at: datetime | None
    key: str
    body: BodyView | None  # None: a tombstone
    headers: list[tuple[str, str]]

    @property
    def size(self) -> int | None:
        return None if self.record.value is None else len(self.record.value)


@router.get("")
def topics(request: Request, principal: Reader) -> Response:
    """Topics by name."""
    log = runtime_of(request).log
    wanted, after = request.query_params.get("name", "").strip(), request.query_params.get("after", "")
    found = sorted((topic for topic in log.topics() if wanted in topic.name), key=lambda topic: topic.name)
    rest = found[bisect_right([topic.name for topic in found], after) :]
    return page(
        request,
        "topics.html",
        topics=[topic_item(log, topic) for topic in rest[:ROWS]],
        total=len(found),
        next=rest[ROWS - 1].name if len(rest) > ROWS else None,
        log_url=_where(log.url),
    )


@router.get("/{topic}")
def topic(request: Request, topic: str, principal: Reader) -> Response:
    """One topic: its partitions, the groups that read it, and the flows that have to do with it."""
    runtime = runtime_of(request)
    found = topic_view(runtime.log, runtime.log.topic(topic))
    return page(request, "topic.html", topic=found, uses=_uses(runtime, topic))


@router.get("/{topic}/records")
def records(request: Request, topic: str, principal: Reader) -> Response:
    """Some records of a partition, from an offset or a time on; without either, the last ones."""
    runtime = runtime_of(request)
    log = runtime.log
    number = whole_of(request, "partition") or 0
    found = log.topic(topic)
    found.check_partition(number)
    end, start = log.ends(topic)[number], log.starts(topic)[number]
    wanted = whole_of(request, "offset")
    if (at := _time(request.query_params.get("at", ""))) is not None:
        wanted = log.offsets_at(topic, at)[number]
    first = min(max(end - RECORDS if wanted is None else wanted, start), end)
    read = read_some(log, topic, number, first, end, RECORDS)
    behind = read[-1].offset + 1 if read else end
    shown = _shown_for(runtime, topic, principal)
    return page(
        request,
        "records.html",
        topic=topic,
        partitions=found.partitions,
        partition=number,
        start=start,
        end=end,
        wanted=wanted,
        records=[_shown(shown(each), PREVIEW_BYTES) for each in read],
        older=max(start, first - RECORDS) if first > start else None,
        newer=behind if behind < end else None,
        is_masked=bool(runtime.desk.masks_for(principal.role)),
    )


@router.get("/{topic}/records/{partition}/{offset}")
def record(request: Request, topic: str, partition: str, offset: str, principal: Reader) -> Response:
    """One record, whole."""
    runtime = runtime_of(request)
    number, place = _whole(partition, "partition"), _whole(offset, "offset")
    runtime.log.topic(topic).check_partition(number)
    found = runtime.log.record(topic, number, place)
    if found is None:
        to = f"/topics/{link(topic)}/records?partition={number}&offset={place}"
        return went(to, f"offset {place} holds no record: offsets have holes. What stands behind it is shown.")
    shown = _shown(_shown_for(runtime, topic, principal)(found))
    flows = sorted({look.stage.flow for look in stage_statuses(runtime.database) if topic in look.stage.topics})
    return page(
        request,
        "record.html",
        shown=shown,
        record=shown.record,
        flows=flows,
        start=runtime.log.starts(topic)[number],
        after=next(iter(read_some(runtime.log, topic, number, place + 1, runtime.log.ends(topic)[number], 1)), None),
        is_masked=bool(runtime.desk.masks_for(principal.role)),
    )


def _shown_for(runtime: Runtime, topic: str, principal: Principal) -> Callable[[Record], Record]:
    return record_mask(runtime, topic, runtime.desk.masks_for(principal.role))


def _shown(record: Record, most: int | None = None) -> RecordShown:
    """`most` bytes of its value, for a list."""
    value = record.value if record.value is None or most is None else _cut(record.value, most)
    headers = [(visible(name), key_text(value)) for name, value in record.headers]
    return RecordShown(record, _at(record), key_text(record.key), None if value is None else body_view(value), headers)


def _cut(value: bytes, most: int) -> bytes:
    """Its beginning, without half a character at the end."""
    end = min(most, len(value))
    while end < len(value) and end > most - 4 and value[end] & 0xC0 == 0x80:
        end -= 1
    return value[:end]


def _at(record: Record) -> datetime | None:
    """Its time, if a calendar has it."""
    try:
        return to_datetime(record.timestamp_ms * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _uses(runtime: Runtime, topic: str) -> list[tuple[str, str]]:
    """Flows that have to do with a topic, and what it is for them."""
    found: dict[str, str] = {}
    for look in stage_statuses(runtime.database):
        flow, shape = look.stage.flow, look.stage.topology
        own = FlowTopics.of(flow, runtime.policies.error_topic(flow))
        roles = {
            own.errors: "records that failed",
            own.reentry: "records that come back from the desk",
            own.outcomes: "what became of records that came back",
            own.marks: "what was written, for second attempts",
            lane_topic(flow): "records that wait for another try",
        }
        if topic in shape.get("topics", ()):
            found[flow] = "it reads this topic"
        elif topic in roles:
            found[flow] = roles[topic]
        elif any(output.get("sink") == f"topic {topic}" for output in shape.get("outputs", ())):
            found[flow] = "it writes this topic"
    return sorted(found.items())


def _time(text: str) -> int | None:
    """In milliseconds; none: it is not there."""
    if not text.strip():
        return None
    return max(0, int(utc_time("at", text.strip()).timestamp() * 1000))


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadValue(f"{name}: {text!r} is not a number")
    return int(text)


def _where(url: str) -> str:
    """The address of the log without whatever lets one in."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest
