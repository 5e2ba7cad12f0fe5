"""Whether the process lives, whether it can work, and its figures."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from towpath.access.role import Scope
from towpath.web.asking import Credentials, needs, runtime_of
from towpath.web.metrics import ApiMetrics
from towpath.web.model import failures

router = APIRouter(tags=["health"])
_allowed = needs(Scope.METRICS)
FIGURES = {"description": "Figures.", "content": {"text/plain": {"schema": {"type": "string"}}}}


class Health(BaseModel):
    """`ok`."""

    status: str = "ok"


@router.get("/healthz")
def healthz() -> Health:
    """Answers while the process lives."""
    return Health()


@router.get("/readyz", responses=failures(503))
def readyz(request: Request) -> Health:
    """Answers when the database does; 503 otherwise."""
    runtime = runtime_of(request)
    with runtime.database.read() as tx:
        runtime.event_log.last_seq(tx)
    return Health()


@router.get("/metrics", response_class=Response, responses={200: FIGURES, **failures(401, 403, 503)})
def metrics(request: Request, credentials: Credentials) -> Response:
    """Figures for Prometheus; needs a key with the scope `metrics` unless the setting api.open_metrics is on."""
    if not runtime_of(request).settings.api.open_metrics:
        _allowed(request, credentials)
    found: ApiMetrics = request.app.state.metrics
    return Response(generate_latest(found.registry), media_type=CONTENT_TYPE_LATEST)
