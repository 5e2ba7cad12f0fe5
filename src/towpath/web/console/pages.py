"""Every page of the console; a part of it is a router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.web.console import access, admin, catalog, overview, processes, queue, search, static, uploads
from towpath.web.console.actors import actors, schedules
from towpath.web.console.desk import case_actions, case_edit, cases, corrections, groups, jobs, lanes, policies
from towpath.web.console.flows import actions as flow_actions
from towpath.web.console.flows import flows, topics, trace
from towpath.web.console.layout import live

if TYPE_CHECKING:
    from fastapi import APIRouter


# Routes are tried in this order: what open pages ask for again and again comes first.
PAGES: tuple[APIRouter, ...] = (
    overview.router,
    queue.event_router,
    queue.router,
    groups.router,
    cases.router,
    flows.router,
    processes.router,
    static.router,
    access.session_router,
    live.router,
    search.router,
    flow_actions.router,
    trace.router,
    topics.router,
    uploads.router,
    catalog.router,
    groups.rehearsal_router,
    case_actions.router,
    case_edit.router,
    jobs.bulk_router,
    jobs.router,
    lanes.router,
    policies.router,
    corrections.router,
    schedules.router,  # before the workflow that could be called so
    actors.workflow_router,
    actors.router,
    access.block_router,
    catalog.complaint_router,
    admin.router,
    admin.notice_router,
    access.router,
)
