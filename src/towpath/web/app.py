"""The app of one process: its routes, what it says of errors, and what stands around both."""

from __future__ import annotations

import time
from copy import copy
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.datastructures import State

from towpath.desk.record_queries import DeskMetrics
from towpath.settings import directory_of
from towpath.web import metrics
from towpath.web.api import (
    access,
    actors,
    admin,
    cases,
    complaints,
    corrections,
    data_sets,
    flows,
    groups,
    jobs,
    lanes,
    policies,
    processes,
    queue,
    rehearsals,
    schedules,
    topics,
)
from towpath.web.api.actors import ActorCode
from towpath.web.auth import scopes_of
from towpath.web.console.layout.action import failed
from towpath.web.console.layout.lists import SharedPages
from towpath.web.console.layout.live import Broadcaster
from towpath.web.console.layout.page import SharedAnswers
from towpath.web.console.pages import PAGES
from towpath.web.failures import GATEWAY, PREFIX, Failure, failures, register
from towpath.web.gateway import results, uploads
from towpath.web.metrics import ApiMetrics
from towpath.web.middleware import RequestMiddleware
from towpath.web.visitors import Rate, VisitorLimits

if TYPE_CHECKING:
    from pathlib import Path

    from towpath.runtime import Runtime


GATEWAY_ROUTERS: tuple[APIRouter, ...] = (metrics.router, uploads.router, results.router)
ROUTERS: tuple[APIRouter, ...] = (
    metrics.router,
    access.router,
    cases.router,
    groups.router,
    jobs.router,
    rehearsals.router,
    corrections.router,
    lanes.router,
    policies.router,
    admin.notice_router,
    actors.router,
    schedules.router,
    data_sets.router,
    flows.router,
    flows.audit_router,
    topics.router,
    queue.router,
    queue.event_router,
    processes.router,
    access.block_router,
    complaints.router,
    admin.router,
    complaints.public_router,
    uploads.router,
    results.router,
)
# What a route may answer besides what it is for.
FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Failure, "description": "What was asked for cannot be had; the code says why."},
    **failures(503),
}


class Surface(StrEnum):
    """What a process answers."""

    GATEWAY = "gateway"  # uploads and their results
    API = "api"  # the same, and the JSON API
    CONSOLE = "console"  # the same, and the pages


def build_app(runtime: Runtime, surface: Surface = Surface.API, directory: Path | None = None) -> FastAPI:
    """The app of one process; modules of users are looked for in the directory of the settings file."""
    app = _App.like(_routes(surface))
    settings, gateway = runtime.settings.api, runtime.settings.gateway
    app.state.runtime = runtime
    app.state.visitor_limits = VisitorLimits(gateway, settings.threads)
    app.state.complaint_rate = Rate(runtime.settings.complaints.per_minute / 60, time.monotonic)
    app.state.metrics = _metrics(runtime)
    app.state.actor_code = ActorCode(runtime.settings.actors.modules, directory or directory_of())
    app.state.broadcaster = Broadcaster(runtime.database)
    app.state.shared_pages = SharedPages()
    limits = {"max_body_bytes": settings.max_body_bytes, "chunk_bytes": gateway.chunk_bytes}
    if surface is Surface.CONSOLE:
        app.add_middleware(SharedAnswers)
    app.add_middleware(RequestMiddleware, hosts=settings.hosts, metrics=app.state.metrics, **limits)
    return app


def _metrics(runtime: Runtime) -> ApiMetrics:
    made, figures = ApiMetrics(), DeskMetrics(runtime.database)
    made.watch(
        "towpath_desk_cases",
        "Cases on the desk and in its history, by flow and state.",
        ("flow", "state"),
        lambda: [((flow, state), cases) for flow, state, cases in figures.cases()],
    )
    made.watch(
        "towpath_lane_late_seconds",
        "For how long the first record of a lane has been due.",
        ("flow", "lane"),
        lambda: [((flow, str(lane)), late_s) for flow, lane, late_s in figures.late_s()],
    )
    return made


class _App(FastAPI):
    """Says in its description which scope a route needs, too."""

    @classmethod
    def like(cls, other: _App) -> _App:
        """Another one with the same routes and a state of its own."""
        made = copy(other)
        made.state = State()
        made.user_middleware = []
        return made

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            found = super().openapi()
            for router in ROUTERS:
                for route in router.routes:
                    if not isinstance(route, APIRoute) or route.path_format not in found["paths"]:
                        continue
                    if scopes := scopes_of(route):
                        for method in route.methods or ():
                            found["paths"][route.path_format][method.lower()]["x-scope"] = " or ".join(scopes)
        return self.openapi_schema or {}


@cache
def _routes(surface: Surface) -> _App:
    """Put together once in a process, which takes a second, and not in the first request, as FastAPI would."""
    app = bare_app(surface)
    app.openapi()
    return app


def bare_app(surface: Surface = Surface.API) -> _App:
    """The routes without anything behind them: what the reference page is written from."""
    app = _App(
        title="Towpath",
        version="1",
        openapi_url=f"{GATEWAY if surface is Surface.GATEWAY else PREFIX}/openapi.json",
        docs_url=None,  # its pages would be fetched from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    has_pages = surface is Surface.CONSOLE
    register(app, failed if has_pages else None)
    for router in PAGES if has_pages else ():  # first: open pages ask again and again
        app.include_router(router)
    if surface is Surface.GATEWAY:
        for router in GATEWAY_ROUTERS:
            app.include_router(router)
    else:
        for router in ROUTERS:  # whoever names its failures one by one says more
            app.include_router(router, responses=router.responses or FAILURES)
    return app
