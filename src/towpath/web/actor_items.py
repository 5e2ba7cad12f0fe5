"""Actors as the API shows them: as the command line does with `--json`.

Who may not see all fields of some flow's records is shown no fields, payloads and reasons of actors either: they quote
records, and nobody can say where in them a field is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from towpath.actors.actor_json import class_item, instance_item, look_item
from towpath.actors.instance import Instance
from towpath.actors.known import Known
from towpath.actors.look import Look
from towpath.actors.phase import Phase
from towpath.actors.schedule import Schedule
from towpath.actors.schedule_json import schedule_item
from towpath.desk.masking import MASK, Masks
from towpath.exact_json import Exact
from towpath.web.desk_items import Item
from towpath.web.queue_items import event_shown


def class_view(
    known: Known, counts: Mapping[Phase, int], schedules: Iterable[Schedule], masks: Masks, *, may_start: bool
) -> Item:
    """A class with its states and schedules. A start of one that is disabled would be refused."""
    return {
        **class_item(known, counts),
        "shape": known.shape,
        "schedules": [schedule_shown(each, masks) for each in schedules if each.actor == known.name],
        "may_start": may_start and known.is_enabled,
    }


def schedule_shown(schedule: Schedule, masks: Masks) -> Item:
    item = schedule_item(schedule)
    return {**_without_reason(item), "payload": MASK} if masks else item


def instance_shown(instance: Instance, masks: Masks) -> Item:
    return _without_reason(instance_item(instance)) if masks else instance_item(instance)


def instance_view(look: Look, known: Known | None, masks: Masks) -> Item:
    if not masks:
        return {**look_item(look, known, Exact), "is_masked": False}
    item = look_item(look, known, lambda text: MASK)
    parts = {name: [_without_reason(each) for each in item[name]] for name in ("children", "history")}
    events = [event_shown(each, masks) for each in look.events]
    return {**_without_reason(item), **parts, "events": events, "is_masked": True}


def _without_reason(item: Item) -> Item:
    """An abort is by a person, in words of theirs, and stays."""
    return item if item["reason"] is None else {**item, "reason": MASK}
