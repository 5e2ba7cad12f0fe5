"""The app: routes, errors, the frame around them."""

from __future__ import annotations

import time
from copy import copy
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.datastructures import State

from towpath.desk.figures import Figures
from towpath.settings import directory_of
from towpath.web import (
    access_routes,
    actor_routes,
    block_routes,
    case_routes,
    complaint_routes,
    correction_routes,
    data_set_routes,
    event_routes,
    failures,
    flow_audit_routes,
    flow_routes,
    gateway_routes,
    group_routes,
    health,
    job_routes,
    lane_routes,
    maintenance_routes,
    notice_routes,
    outlet_routes,
    policy_routes,
    process_routes,
    public_routes,
    queue_routes,
    rehearsal_routes,
    schedule_routes,
    topic_routes,
)
from towpath.web.actor_code import ActorCode
from towpath.web.asking import scopes_of
from towpath.web.console import failing
from towpath.web.console.all_pages import PAGES
from towpath.web.console.common import Common
from towpath.web.console.live import Broadcaster
from towpath.web.console.sharing import Sharing
from towpath.web.frame import Frame
from towpath.web.metrics import ApiMetrics
from towpath.web.model import GATEWAY, PREFIX, Failure
from towpath.web.model import failures as failures_of
from towpath.web.rate import Rate
from towpath.web.visiting import Hall

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import APIRouter

    from towpath.runtime import Runtime

GATEWAY_ROUTERS: tuple[APIRouter, ...] = (health.router, gateway_routes.router, outlet_routes.router)
ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    access_routes.router,
    case_routes.router,
    group_routes.router,
    job_routes.router,
    rehearsal_routes.router,
    correction_routes.router,
    lane_routes.router,
    policy_routes.router,
    notice_routes.router,
    actor_routes.router,
    schedule_routes.router,
    data_set_routes.router,
    flow_routes.router,
    flow_audit_routes.router,
    topic_routes.router,
    queue_routes.router,
    event_routes.router,
    process_routes.router,
    block_routes.router,
    complaint_routes.router,
    maintenance_routes.router,
    public_routes.router,
    gateway_routes.router,
    outlet_routes.router,
)
# What a route may answer besides what it is for.
FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Failure, "description": "What was asked for cannot be had; the code says why."},
    **failures_of(503),
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
    app.state.hall = Hall(gateway, settings.threads)
    app.state.complaint_rate = Rate(runtime.settings.complaints.per_minute / 60, time.monotonic)
    app.state.metrics = _metrics(runtime)
    app.state.actor_code = ActorCode(runtime.settings.actors.modules, directory or directory_of())
    app.state.broadcaster = Broadcaster(runtime.database)
    app.state.common = Common()
    limits = {"max_body_bytes": settings.max_body_bytes, "chunk_bytes": gateway.chunk_bytes}
    if surface is Surface.CONSOLE:
        app.add_middleware(Sharing)
    app.add_middleware(Frame, hosts=settings.hosts, metrics=app.state.metrics, **limits)
    return app


def _metrics(runtime: Runtime) -> ApiMetrics:
    metrics, figures = ApiMetrics(), Figures(runtime.database)
    metrics.watch(
        "towpath_desk_cases",
        "Cases on the desk and in its history, by flow and state.",
        ("flow", "state"),
        lambda: [((flow, state), cases) for flow, state, cases in figures.cases()],
    )
    metrics.watch(
        "towpath_lane_late_seconds",
        "For how long the first record of a lane has been due.",
        ("flow", "lane"),
        lambda: [((flow, str(lane)), late_s) for flow, lane, late_s in figures.late_s()],
    )
    return metrics


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
    failures.register(app, failing.failed if has_pages else None)
    for router in PAGES if has_pages else ():  # first: open pages ask again and again
        app.include_router(router)
    if surface is Surface.GATEWAY:
        for router in GATEWAY_ROUTERS:
            app.include_router(router)
    else:
        for router in ROUTERS:  # whoever names its failures one by one says more
            app.include_router(router, responses=router.responses or FAILURES)
    return app
