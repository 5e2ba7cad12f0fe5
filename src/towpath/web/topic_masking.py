"""What a person may see of the records of a topic: what the desk would show of them.

A record of a topic that flows read, or have for errors, lanes and the way back, is shown as a case of theirs would be.
Who may not see all fields of some flow is shown nothing of what lies in other topics: a flow may have written it, under
names of its own, and nobody can say where in it the field is.
"""

from __future__ import annotations

from collections.abc import Callable

from towpath.desk.lane import lane_topic
from towpath.desk.masking import MASK, Mask, Masks
from towpath.flow.look import looks
from towpath.flow.stage_store import Stage
from towpath.flow.topics import FlowTopics
from towpath.log.record import Record
from towpath.runtime import Runtime


def shown_of(runtime: Runtime, topic: str, masks: Masks) -> Callable[[Record], Record]:
    """What makes a record of the topic fit for a person's eyes."""
    if not masks:
        return lambda record: record
    flows = {look.stage.flow for look in looks(runtime.database) if _is_of(runtime, look.stage, topic)}
    if not flows:
        return _hidden
    found = [mask for mask in map(masks.of, sorted(flows)) if mask]
    return lambda record: _masked(record, found)


def _is_of(runtime: Runtime, stage: Stage, topic: str) -> bool:
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
