"""Every page of the console; a part of it is a module with a router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.web.console import (
    access_pages,
    actor_pages,
    block_pages,
    bulk_pages,
    case_changes,
    case_edit_pages,
    case_pages,
    complaint_pages,
    correction_pages,
    data_set_pages,
    event_pages,
    find_pages,
    flow_acts,
    flow_audit_pages,
    flow_pages,
    group_pages,
    job_pages,
    lane_pages,
    live,
    maintenance_pages,
    notice_pages,
    overview_pages,
    policy_pages,
    process_pages,
    queue_pages,
    rehearsal_pages,
    schedule_pages,
    session_routes,
    static,
    topic_pages,
    trace_pages,
    upload_pages,
    workflow_pages,
)

if TYPE_CHECKING:
    from types import ModuleType

# Routes are tried in this order: what open pages ask for again and again comes first.
PAGES: tuple[ModuleType, ...] = (
    overview_pages,
    event_pages,
    queue_pages,
    group_pages,
    case_pages,
    flow_pages,
    process_pages,
    static,
    session_routes,
    live,
    find_pages,
    flow_acts,
    flow_audit_pages,
    trace_pages,
    topic_pages,
    upload_pages,
    data_set_pages,
    rehearsal_pages,
    case_changes,
    case_edit_pages,
    bulk_pages,
    job_pages,
    lane_pages,
    policy_pages,
    correction_pages,
    schedule_pages,  # before the workflow that could be called so
    workflow_pages,
    actor_pages,
    block_pages,
    complaint_pages,
    maintenance_pages,
    notice_pages,
    access_pages,
)
