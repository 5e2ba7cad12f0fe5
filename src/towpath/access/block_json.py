"""Block rules for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.access.block import Block


def block_item(found: Block) -> dict[str, Any]:
    return {
        "number": found.rule.number,
        "state": found.state,
        "action": found.rule.action,
        "match": found.rule.match.to_json(),
        "approved_by": found.approved_by,
        "made_by": found.made_by,
        "why": found.rule.why,
        "since": found.since,
        "until": found.until,
        "withdrawn_at": found.withdrawn_at,
        "withdrawn_by": found.withdrawn_by,
        "withdrawn_why": found.withdrawn_why,
        "caught": found.caught,
        "caught_at": found.caught_at,
    }
