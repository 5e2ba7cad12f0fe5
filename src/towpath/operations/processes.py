"""Processes, duties and deaths as the command line and the API show them.

What a process has said last may quote records, so `trouble` is hidden from whoever may not see all fields of some
flow's records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.db.processes import ProcessRow
from towpath.desk.masks import MASK
from towpath.operations.model import Item
from towpath.supervision.service import DutyView

if TYPE_CHECKING:
    from towpath.desk.masks import Masks
    from towpath.supervision.duties.model import Duty
    from towpath.supervision.duties.store import Death
    from towpath.supervision.service import Overview


def overview_shown(found: Overview, gone: frozenset[str], masks: Masks) -> Item:
    item = overview_item(found, gone)
    return {**item, "items": [_without_trouble(each, masks) for each in item["items"]]}


def found_shown(found: DutyView | ProcessRow, masks: Masks) -> Item:
    return view_shown(found, masks) if isinstance(found, DutyView) else found_item(found)


def view_shown(view: DutyView, masks: Masks) -> Item:
    item = _without_trouble(view_item(view), masks)
    return {**item, "deaths": [_without_trouble(each, masks) for each in item["deaths"]]}


def death_shown(death: Death, masks: Masks) -> Item:
    return _without_trouble(death_item(death), masks)


def overview_item(found: Overview, gone: frozenset[str] = frozenset()) -> Item:
    """All that has to run, and who sees to it; `gone` are the names of those whose process is not there any more."""
    term = {
        "term": found.term.number,
        "peer": found.term.peer,
        "holder": found.term.holder,
        "is_held": found.has_coordinator,
    }
    items = [
        {
            **duty_item(duty),
            "is_gone": duty.name in gone,
            "running": _running(found.processes.get(duty.process_id or "")),
        }
        for duty in found.duties
    ]
    return {"term": term, "is_ready": found.is_all_ready, "items": items}


def found_item(found: DutyView | ProcessRow) -> Item:
    """What stands behind a name."""
    return view_item(found) if isinstance(found, DutyView) else process_item(found)


def view_item(view: DutyView) -> Item:
    """A duty with its process, and how its last processes died."""
    return {
        **duty_item(view.duty),
        "running": _running(view.process),
        "deaths": [death_item(each) for each in view.deaths],
    }


def duty_item(duty: Duty) -> Item:
    return {
        "name": duty.name,
        "kind": duty.kind,
        "host": duty.host,
        "wish": duty.wish,
        "state": duty.state,
        "launch": duty.launch,
        "process": duty.process_id,
        "launched_at": duty.launched_at,
        "ready_at": duty.ready_at,
        "early_deaths": duty.early_deaths,
        "next_try_at": duty.next_try_at,
        "trouble": duty.trouble,
        "command": list(duty.spec.command),
        "who": duty.who,
        "why": duty.why,
        "updated_at": duty.updated_at,
    }


def death_item(death: Death) -> Item:
    return {
        "duty": death.duty,
        "launch": death.launch,
        "process": death.process_id,
        "host": death.host,
        "pid": death.pid,
        "how": death.how,
        "exit_code": death.exit_code,
        "signal": death.exit_signal,
        "trouble": death.trouble,
        "last_beat_at": death.last_beat_at,
        "noticed_at": death.noticed_at,
        "freed": death.freed,
        "back_at": death.back_at,
        "term": death.term,
        "coordinator": death.coordinator,
    }


def process_item(row: ProcessRow) -> Item:
    return {
        "id": row.id,
        "name": row.name,
        "host": row.host,
        "pid": row.pid,
        "state": row.state,
        "kind": row.kind,
        "version": row.version,
        "duty": row.duty,
        "launch": row.launch,
        "status": row.status,
        "progress": row.progress,
        "started_at": row.started_at,
        "ready_at": row.ready_at,
        "beat_at": row.beat_at,
        "lease_until": row.lease_until,
    }


def _running(process: ProcessRow | None) -> Item | None:
    return None if process is None else process_item(process)


def _without_trouble(item: Item, masks: Masks) -> Item:
    return {**item, "trouble": MASK} if masks and item["trouble"] else item
