"""Schedules for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.actors.schedule import Schedule


def schedule_item(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "actor": schedule.actor,
        "instance": schedule.instance,
        "state": schedule.state,
        "payload": schedule.payload,
        "when": str(schedule.rhythm),
        "is_enabled": schedule.is_enabled,
        "made_at": schedule.made_at,
        "next_at": schedule.next_at,
        "last_at": schedule.last_at,
        "last_run": schedule.last_run,
        "outcome": schedule.outcome,
        "reason": schedule.reason,
        "skipped": schedule.skipped,
        "skip_reason": schedule.skip_reason,
        "warning": schedule.warning,
    }
