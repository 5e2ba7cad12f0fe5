"""Processes for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.db.processes import ProcessRow


def process_item(row: ProcessRow) -> dict[str, Any]:
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
