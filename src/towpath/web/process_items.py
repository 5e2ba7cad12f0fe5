"""Duties and deaths as the API shows them: as the command line does with `--json`.

Who may not see all fields of some flow's records is not shown either what a process has said last: it may quote them.
"""

from __future__ import annotations

from towpath.db.processes import ProcessRow
from towpath.desk.masking import MASK, Masks
from towpath.supervision.death import Death
from towpath.supervision.duty_desk import DutyView, Overview
from towpath.supervision.duty_json import death_item, found_item, overview_item, view_item
from towpath.web.desk_items import Item


def death_shown(death: Death, masks: Masks) -> Item:
    return _without_trouble(death_item(death), masks)


def view_shown(view: DutyView, masks: Masks) -> Item:
    item = _without_trouble(view_item(view), masks)
    return {**item, "deaths": [_without_trouble(each, masks) for each in item["deaths"]]}


def found_shown(found: DutyView | ProcessRow, masks: Masks) -> Item:
    return view_shown(found, masks) if isinstance(found, DutyView) else found_item(found)


def overview_shown(found: Overview, gone: frozenset[str], masks: Masks) -> Item:
    item = overview_item(found, gone)
    return {**item, "items": [_without_trouble(each, masks) for each in item["items"]]}


def _without_trouble(item: Item, masks: Masks) -> Item:
    return {**item, "trouble": MASK} if masks and item["trouble"] else item
