"""What the HTTP interface tells Prometheus: its own requests, and the desk and the queue when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


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

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")  # never the path itself: anybody can make up new ones
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, name: str, about: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]) -> None:
        """Ask anew for each scrape."""
        self.registry.register(_Asked(name, about, labels, read))


Sample = tuple[tuple[str, ...], float]


class _Asked(Collector):
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
