"""Where a record is, and how it got there, as a story with links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from towpath.core.clock import to_datetime, to_millisecond
from towpath.errors import BadValue
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.flow.stage.status import stage_statuses
from towpath.operations.model import Item
from towpath.operations.traces import HOW, TraceQuery, traced
from towpath.web.auth import Reader, runtime_of
from towpath.web.console.layout.filters import link
from towpath.web.console.layout.lists import chosen
from towpath.web.console.layout.page import page

if TYPE_CHECKING:
    from towpath.runtime import Runtime


router = APIRouter(include_in_schema=False)

FIELDS = ("flow", "topic", "partition", "offset", "key", "id", "case")


@dataclass(frozen=True, slots=True)
class TraceTimelineEntry:
    """One thing that has happened to a record."""

    at: datetime
    text: str
    href: str = ""
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """What is known of a record in one stage."""

    item: Item
    flow: str
    happened: list[TraceTimelineEntry]

    @classmethod
    def of(cls, item: Item, flow: str) -> Story:
        return cls(item, flow, sorted(_happened(item, flow), key=lambda entry: to_millisecond(entry.at)))


@router.get("/trace")
def trace(request: Request, principal: Reader) -> Response:
    """Where is this record? By its place, its key, a document that was made of it, or its case."""
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    given = chosen(request, *FIELDS)
    flows = sorted({look.stage.flow for look in stage_statuses(runtime.database)})
    wanted = _wanted(runtime, given) if set(given) - {"flow"} else []
    found = [traced(runtime, each, masks) for each in wanted]
    return page(
        request,
        "trace.html",
        stories=[Story.of(item, each.flow) for each in found for item in each.items],
        matches=sum(each.matches or 0 for each in found) if "key" in given else None,
        offsets_read=next((each.offsets_read for each in found if each.offsets_read is not None), None),
        flows=flows,
        is_asked=bool(wanted),
    )


def _wanted(runtime: Runtime, given: dict[str, str]) -> list[TraceQuery]:
    """In each flow that reads the topic, when no flow is said."""
    if "flow" not in given and "topic" in given:
        readers = {look.stage.flow for look in stage_statuses(runtime.database) if given["topic"] in look.stage.topics}
        if not readers:
            raise BadValue(f"no flow that has run here reads topic {given['topic']!r}")
        return [_checked({**given, "flow": flow}) for flow in sorted(readers)]
    return [_checked(given)]


def _checked(given: dict[str, str]) -> TraceQuery:
    try:
        return TraceQuery.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise BadValue(f"{name}: {first['msg']}" if name else HOW) from None


def _happened(item: Item, flow: str) -> Iterator[TraceTimelineEntry]:
    """Of one moment, the cause before its effect."""
    if (record := item["record"]) is not None:
        key = "no key" if record["key"] is None else f"key {record['key']}"
        size = "no value" if record["bytes"] is None else f"{record['bytes']:,} bytes"
        where = f"/topics/{link(item['topic'])}/records/{item['partition']}/{item['offset']}"
        yield TraceTimelineEntry(to_datetime(record["timestamp_ms"] * 1000), f"arrived: {key}, {size}", where)
    for batch in item["readings"]:
        yield _read(batch, flow, item["stage"])
    for failure in item["failures"]:
        step = f"{failure['step']}, output {failure['output']}" if failure["output"] else failure["step"]
        said = f"failed with code {int(failure['code'])} ({MEANINGS[ErrorCode(failure['code'])]}) at {step}: "
        yield TraceTimelineEntry(
            failure["time"], f"{said}{failure['exception']}: {failure['message']}", _error(failure["at"]), True
        )
    for batch in item["readings"]:
        yield from _ended(batch, flow, item["stage"])
    for case in item["cases"]:
        yield from _case(case)


def _read(batch: Item, flow: str, stage: str) -> TraceTimelineEntry:
    tries = f", tried {batch['attempts']} times" if batch["attempts"] > 1 else ""
    return TraceTimelineEntry(batch["started_at"], f"read by {_name(batch)}{tries}", _batches(batch, flow, stage))


def _ended(batch: Item, flow: str, stage: str) -> Iterator[TraceTimelineEntry]:
    where = _batches(batch, flow, stage)
    if batch["committed_at"] is not None:
        yield TraceTimelineEntry(batch["committed_at"], f"{_name(batch)} was committed", where)
    elif batch["state"] == "superseded":
        yield TraceTimelineEntry(batch["started_at"], f"{_name(batch)} was given up by a reset", where)


def _name(batch: Item) -> str:
    return f"batch {batch['generation']}/{batch['batch_id']}"


def _batches(batch: Item, flow: str, stage: str) -> str:
    """The page that begins with it."""
    before = f"{batch['generation']}-{batch['batch_id'] + 1}"
    return f"/flows/{link(flow)}/batches?stage={link(stage)}&before={before}"


def _case(case: Item) -> Iterator[TraceTimelineEntry]:
    where, name = f"/desk/cases/{link(case['id'])}", f"case {case['number']}"
    for failure in case["failures"][1:]:  # the first is told by the flow
        said = f"attempt {failure['attempt']} of {name} failed with code {failure['code']} at {failure['step']}: "
        yield TraceTimelineEntry(failure["at"], f"{said}{failure['message']}", where, True)
    for done in case["history"]:
        why = f": {done['why']}" if done["why"] else ""
        yield TraceTimelineEntry(done["at"], f"{name}: {done['what']} by {done['who']}{why}", where)


def _error(place: str) -> str:
    """The page of an error record, which is named `topic/partition/offset`."""
    topic, partition, offset = place.rsplit("/", 2)
    return f"/topics/{link(topic)}/records/{partition}/{offset}"
