"""Health of this process, and its figures for Prometheus: its requests, and the desk and the queue when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel
from starlette.types import Scope as HttpScope

from towpath.access.roles import Scope
from towpath.web.auth import Credentials, RequiredScope, runtime_of
from towpath.web.failures import failures

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
FIGURES = {"description": "Figures.", "content": {"text/plain": {"schema": {"type": "string"}}}}

router = APIRouter(tags=["health"])
_allowed = RequiredScope(Scope.METRICS)

Sample = tuple[tuple[str, ...], float]


class ApiMetrics:
    """Counts the requests of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "towpath_api_requests",
            "Requests, by route.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "towpath_api_seconds", "How long requests took.", ("route",), buckets=SECONDS, registry=self.registry
        )

    def observe(self, scope: HttpScope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")  # never the path itself: anybody can make up new ones
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, name: str, about: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]) -> None:
        """Ask anew for each scrape."""
        self.registry.register(_ReadOnScrape(name, about, labels, read))


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


class _ReadOnScrape(Collector):
    def __init__(self, name: str, about: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]) -> None:
        self._name = name
        self._about = about
        self._labels = labels
        self._read = read

    def describe(self) -> Iterable[Metric]:
        return []  # or it would be asked when it is registered

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._about, labels=self._labels)
        for labels, value in self._read():
            family.add_metric(labels, value)
        yield family
