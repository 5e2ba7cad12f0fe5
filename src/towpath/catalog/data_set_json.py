"""Data sets for programs: one shape for the command line and the API."""

from __future__ import annotations

from typing import Any

from towpath.catalog.data_set import DataSet, Lineage


def data_set_item(found: DataSet) -> dict[str, Any]:
    return {
        "id": found.id,
        "kind": found.kind,
        "subject": found.subject,
        "origin": found.origin,
        "place": found.place,
        "state": found.state,
        "records": found.records,
        "bytes": found.bytes,
        "facts": dict(found.facts),
        "reason": found.reason,
        "begun_at": found.begun_at,
        "ready_at": found.ready_at,
        "deleted_at": found.deleted_at,
    }


def lineage_item(lineage: Lineage) -> dict[str, Any]:
    """One of them with its family."""
    return {
        **data_set_item(lineage.data_set),
        "parents": [data_set_item(each) for each in lineage.parents],
        "children": [data_set_item(each) for each in lineage.children],
    }
