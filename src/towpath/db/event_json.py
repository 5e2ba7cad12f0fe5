"""Events for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.db.event_log import StoredEvent


def event_item(event: StoredEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "subject": event.subject,
        "who": event.who,
        "why": event.why,
        "data": event.data,
    }
