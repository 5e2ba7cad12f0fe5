"""Actors and their instances for programs: one shape for the command line and the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from towpath.actors.instance import Instance, name_of
from towpath.actors.known import Known
from towpath.actors.look import Look
from towpath.actors.phase import Phase
from towpath.actors.planning import NEVER_US
from towpath.db.event_json import event_item
from towpath.queue.message_json import message_item


def class_item(known: Known, counts: Mapping[Phase, int]) -> dict[str, Any]:
    """A class, with how many of its instances are in which phase."""
    return {
        "name": known.name,
        "about": known.about,
        "is_enabled": known.is_enabled,
        "is_here": known.definition is not None,
        "instances": {phase: counts.get(phase, 0) for phase in Phase},
    }


def instance_item(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "actor": instance.actor,
        "instance": instance.instance,
        "phase": instance.phase,
        "state": instance.step,
        "since": instance.moved_at,
        "due_at": due_at(instance),
        "owner": instance.owner,
        "reason": instance.reason,
        "abort": instance.abort,
        "run_id": instance.run_id,
        "head_id": instance.head_id,
        "parent": parent_of(instance),
        "is_tied": instance.is_tied,
        "restarts": instance.restarts,
    }


def look_item(look: Look, known: Known | None, read: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """An instance with what is around it; `read` is given the JSON text of fields, payloads and headers."""
    return {
        **instance_item(look.instance),
        "fields": None if look.head is None else read(look.head.payload_json),
        "resume": resume_of(look, known),
        "failed_in": None if look.failed is None else {"state": look.failed.function, "message": look.failed.id},
        "waits_for": [
            {"id": each.id, "is_answered": each.is_answered, "inbox": each.inbox, "state": each.state}
            for each in look.questions
        ],
        "children": [instance_item(each) for each in look.children],
        "history": [message_item(each, read) for each in look.history],
        "events": [event_item(each) for each in look.events],
    }


def resume_of(look: Look, known: Known | None) -> str | None:
    """What becomes of it if its process dies, as the state that it is in declares."""
    if known is None or not look.instance.is_live:
        return None
    return next((str(each["resume"]) for each in known.shape["states"] if each["name"] == look.instance.step), None)


def due_at(instance: Instance) -> datetime | None:
    """When it is due by the clock; who waits without a limit never is."""
    return None if instance.due_us is None or instance.due_us >= NEVER_US else instance.due_at


def parent_of(instance: Instance) -> str | None:
    return None if instance.parent is None else name_of(instance.parent)
