"""Topics: partitions, how far groups have come, and records, as the command line and the API show them.

Offsets have holes: `records_at_most` is no count, and `lag` is in offsets. A record is exact to the byte: bytes that
are UTF-8 are text, others are `{"base64": "…"}`; headers are pairs, because one name may come twice. A page of records
is cut by their number and by their size.

Masks: a record of a topic that a flow reads, or uses for errors, lanes, re-entry or outcomes, is shown as a case of
that flow would be. For somebody with masks, records of all other topics are hidden whole: a flow may have written them
under names of its own, so nobody can say where in them a masked field is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from towpath.desk.masks import MASK
from towpath.desk.replay.lane import lane_topic
from towpath.flow.stage.status import stage_statuses
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log
from towpath.log.record import Record
from towpath.log.topic import Topic
from towpath.operations.model import Item

if TYPE_CHECKING:
    from towpath.desk.masks import Mask, Masks
    from towpath.flow.stage.store import StageRow
    from towpath.runtime import Runtime


MOST_BYTES = 4_000_000  # of values in one answer


def topic_item(log: Log, topic: Topic) -> Item:
    found = offset_items(log, topic.name)
    return {
        "name": topic.name,
        "id": topic.id,
        "partitions": topic.partitions,
        "retention_s": topic.retention_s,
        "records_at_most": sum(item["end"] - item["start"] for item in found),
        "offsets": found,
    }


def topic_view(log: Log, topic: Topic) -> Item:
    """A topic with the groups that read it."""
    item = topic_item(log, topic)
    return {**item, "groups": _group_items(log, topic.name, item["offsets"])}


def offset_items(log: Log, topic: str) -> list[Item]:
    """The first and the next offset of each partition."""
    # Ends first: a partition that is added in between has no start to go with it, and records only become more.
    ends, starts = log.ends(topic), log.starts(topic)
    return [
        {"partition": number, "start": min(starts.get(number, end), end), "end": end} for number, end in ends.items()
    ]


def position_items(log: Log, group: str) -> list[Item]:
    """Where a group is, in every topic that it reads."""
    positions = log.positions(group)
    offsets = {name: offset_items(log, name) for name in sorted({name for name, _ in positions})}
    return [
        {"topic": name, **with_position(item, positions[name, item["partition"]])}
        for name, items in offsets.items()
        for item in items
        if (name, item["partition"]) in positions
    ]


def with_position(item: Item, position: int | None) -> Item:
    """`lag` is in offsets: at most so many records are still to be read."""
    lag = None if position is None else max(0, item["end"] - max(position, item["start"]))
    return {**item, "position": position, "lag": lag}


def record_item(record: Record) -> Item:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _spelled(record.key),
        "value": _spelled(record.value),
        "headers": [[name, _spelled(value)] for name, value in record.headers],
    }


def read_some(log: Log, topic: str, partition: int, first: int, end: int, limit: int) -> list[Record]:
    """From an offset on; at least one, if there is one."""
    found: list[Record] = []
    size = 0
    for record in islice(log.read(topic, partition, first, max(first, end)), limit):
        size += len(record.value or b"") + len(record.key or b"")
        if found and size > MOST_BYTES:
            break
        found.append(record)
    return found


def record_mask(runtime: Runtime, topic: str, masks: Masks) -> Callable[[Record], Record]:
    """What makes a record of the topic fit for a person's eyes."""
    if not masks:
        return lambda record: record
    flows = {look.stage.flow for look in stage_statuses(runtime.database) if _is_of(runtime, look.stage, topic)}
    if not flows:
        return _hidden
    found = [mask for mask in map(masks.of, sorted(flows)) if mask]
    return lambda record: _masked(record, found)


def _group_items(log: Log, topic: str, offsets: list[Item]) -> list[Item]:
    """Where groups are in a topic, each with what it has still to read."""
    groups = []
    for group in log.groups():
        positions = {number: at for (name, number), at in log.positions(group).items() if name == topic}
        if positions:
            partitions = [with_position(item, positions.get(item["partition"])) for item in offsets]
            groups.append({"group": group, "positions": [item for item in partitions if item["position"] is not None]})
    return groups


def _spelled(part: bytes | None) -> Any:
    """Bytes as JSON."""
    if part is None:
        return None
    try:
        return part.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(part).decode()}


def _is_of(runtime: Runtime, stage: StageRow, topic: str) -> bool:
    own = FlowTopics.of(stage.flow, runtime.policies.error_topic(stage.flow))
    names = {*stage.topics, *stage.topology.get("topics", ()), lane_topic(stage.flow)}
    return topic in names | {own.errors, own.reentry, own.outcomes, own.marks}


def _masked(record: Record, masks: list[Mask]) -> Record:
    for mask in masks:
        headers = mask.header_values(record.headers, [record.value or None], record.key)
        record = record._replace(value=mask.value(record.value), key=mask.key(record.key), headers=headers)
    return record


def _hidden(record: Record) -> Record:
    mask = MASK.encode()
    return record._replace(
        value=None if record.value is None else mask,
        key=None if record.key is None else mask,
        headers=tuple((name, None if value is None else mask) for name, value in record.headers),
    )
