"""Topics for programs: their partitions, and how far groups have come. One shape for the command line and the API.

Offsets have holes: `records_at_most` is no count, and `lag` is in offsets.
"""

from __future__ import annotations

from typing import Any

from towpath.log.log import Log
from towpath.log.topic import Topic

Item = dict[str, Any]


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
    return {**item, "groups": group_items(log, topic.name, item["offsets"])}


def offset_items(log: Log, topic: str) -> list[Item]:
    """The first and the next offset of each partition."""
    # Ends first: a partition that is added in between has no start to go with it, and records only become more.
    ends, starts = log.ends(topic), log.starts(topic)
    return [
        {"partition": number, "start": min(starts.get(number, end), end), "end": end} for number, end in ends.items()
    ]


def group_items(log: Log, topic: str, offsets: list[Item]) -> list[Item]:
    """Where groups are in a topic, each with what it has still to read."""
    groups = []
    for group in log.groups():
        positions = {number: at for (name, number), at in log.positions(group).items() if name == topic}
        if positions:
            partitions = [with_position(item, positions.get(item["partition"])) for item in offsets]
            groups.append({"group": group, "positions": [item for item in partitions if item["position"] is not None]})
    return groups


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
