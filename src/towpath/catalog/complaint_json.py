"""Complaints for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.catalog.complaint import Complaint


def complaint_item(found: Complaint, *, shows_contact: bool = True) -> dict[str, Any]:
    """Who may not act on it need not know who has made it."""
    about, origin = found.about, found.origin
    return {
        "number": found.number,
        "state": found.state,
        "target": about.target,
        "document": about.document,
        "flow": about.flow,
        "text": about.said,
        "contact": about.contact if shows_contact else None,
        "made_by": found.made_by,
        "made_at": found.made_at,
        "record": None
        if origin is None
        else {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        "taken_by": found.taken_by,
        "taken_at": found.taken_at,
        "outcome": found.outcome,
        "rule": found.rule,
        "settled_by": found.settled_by,
        "settled_at": found.settled_at,
        "why": found.why,
        "reply": found.reply,
    }
