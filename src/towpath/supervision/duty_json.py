"""Duties and deaths for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.db.process_json import process_item
from towpath.db.processes import ProcessRow
from towpath.supervision.death import Death
from towpath.supervision.duty import Duty
from towpath.supervision.duty_desk import DutyView, Overview


def duty_item(duty: Duty) -> dict[str, Any]:
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


def death_item(death: Death) -> dict[str, Any]:
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


def view_item(view: DutyView) -> dict[str, Any]:
    """A duty with its process, and how its last processes died."""
    return {
        **duty_item(view.duty),
        "running": _running(view.process),
        "deaths": [death_item(each) for each in view.deaths],
    }


def found_item(found: DutyView | ProcessRow) -> dict[str, Any]:
    """What stands behind a name."""
    return view_item(found) if isinstance(found, DutyView) else process_item(found)


def overview_item(found: Overview, gone: frozenset[str] = frozenset()) -> dict[str, Any]:
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


def _running(process: ProcessRow | None) -> dict[str, Any] | None:
    return None if process is None else process_item(process)
