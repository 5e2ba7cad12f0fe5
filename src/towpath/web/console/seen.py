"""What somebody may see of events, actors and processes who may not see all fields of some flow's records.

Reasons and details quote records, and nobody can say where in them a field is: they are hidden whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from towpath.actors.instance import Instance
from towpath.db.event_log import StoredEvent
from towpath.desk.masking import MASK, Masks
from towpath.supervision.death import Death
from towpath.supervision.duty import Duty

Troubled = TypeVar("Troubled", Duty, Death)


def events_seen(events: Iterable[StoredEvent], masks: Masks) -> list[StoredEvent]:
    return [replace(each, why=MASK, data={}) if masks else each for each in events]


def instances_seen(instances: Iterable[Instance], masks: Masks) -> list[Instance]:
    return [each._replace(reason=MASK) if masks and each.reason else each for each in instances]


def troubles_seen(found: Iterable[Troubled], masks: Masks) -> list[Troubled]:
    return [replace(each, trouble=MASK) if masks and each.trouble else each for each in found]
