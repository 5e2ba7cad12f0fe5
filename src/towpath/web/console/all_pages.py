"""Every page of the console; a part of it is a router."""

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
    from fastapi import APIRouter

# Routes are tried in this order: what open pages ask for again and again comes first.
PAGES: tuple[APIRouter, ...] = (
    overview_pages.router,
    event_pages.router,
    queue_pages.router,
    group_pages.router,
    case_pages.router,
    flow_pages.router,
    process_pages.router,
    static.router,
    session_routes.router,
    live.router,
    find_pages.router,
    flow_acts.router,
    flow_audit_pages.router,
    trace_pages.router,
    topic_pages.router,
    upload_pages.router,
    data_set_pages.router,
    rehearsal_pages.router,
    case_changes.router,
    case_edit_pages.router,
    bulk_pages.router,
    job_pages.router,
    lane_pages.router,
    policy_pages.router,
    correction_pages.router,
    schedule_pages.router,  # before the workflow that could be called so
    workflow_pages.router,
    actor_pages.router,
    block_pages.router,
    complaint_pages.router,
    maintenance_pages.router,
    notice_pages.router,
    access_pages.router,
)
