"""What a running flow tells Prometheus: counters from its events, and where its stages are when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from towpath.core.events import Event, EventKind
from towpath.errors import BadSettings
from towpath.flow.delivery.places import BY_BATCH, RecordPlace
from towpath.flow.run.flow_run import StageView
from towpath.flow.stage import StageState

LOOPBACK = "127.0.0.1"
BATCH_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
ALWAYS = (RecordPlace.LOADED, RecordPlace.FILTERED, RecordPlace.FAILED)


class FlowMetrics:
    """Counts what happens in one process. Subscribe `on_event`, and serve the registry."""

    def __init__(self, flow: str, views: Callable[[], Sequence[StageView]]) -> None:
        self.registry = CollectorRegistry()
        labels = ("flow", "stage")
        self._records = Counter(
            "towpath_flow_records",
            "Records of committed batches, by place.",
            (*labels, "place"),
            registry=self.registry,
        )
        self._joining = Gauge(
            "towpath_flow_joining",
            "Records that have come to wait in joins, less those that have left, since the process began.",
            labels,
            registry=self.registry,
        )
        self._failures = Counter(
            "towpath_flow_failures", "Records that failed, by error code.", (*labels, "code"), registry=self.registry
        )
        self._deliveries = Counter(
            "towpath_flow_deliveries", "Deliveries, by output.", (*labels, "output"), registry=self.registry
        )
        self._batches = Histogram(
            "towpath_flow_batch_seconds",
            "How long committed batches took.",
            labels,
            buckets=BATCH_SECONDS,
            registry=self.registry,
        )
        self._moves = Counter(
            "towpath_flow_moves", "Moves of the pilot.", (*labels, "source", "target"), registry=self.registry
        )
        self.registry.register(_Stages(flow, views))

    def on_event(self, event: Event) -> None:
        flow, _, stage = event.subject.partition("/")
        match event.kind:
            case EventKind.FLOW_MOVED:
                self._moves.labels(flow, stage, str(event.data["from"]), str(event.data["to"])).inc()
            case EventKind.BATCH_COMMITTED:
                self._add_batch(flow, stage, event)

    def _add_batch(self, flow: str, stage: str, event: Event) -> None:
        for place in (place for place in BY_BATCH if place in ALWAYS or place in event.data):
            count = event.data[place]
            number = count if isinstance(count, int) else sum(count.values())
            if place is RecordPlace.JOINING:  # goes down when partners come
                self._joining.labels(flow, stage).inc(number)
            else:
                self._records.labels(flow, stage, place).inc(number)
        for code, count in event.data["failed"].items():
            self._failures.labels(flow, stage, code).inc(count)
        for output, count in event.data["delivered"].items():
            self._deliveries.labels(flow, stage, output).inc(count)
        self._batches.labels(flow, stage).observe(event.data["took_s"])

    def serve(self, port: int) -> int:
        """Answer on the loopback interface; returns the port, which is a free one for 0."""
        try:
            server, _ = start_http_server(port, addr=LOOPBACK, registry=self.registry)
        except OSError as error:
            raise BadSettings(f"metrics cannot be served on port {port}: {error.strerror}; choose another") from error
        return int(server.server_port)


class _Stages(Collector):
    """Asked anew for each scrape: no figure is older than the stage's own last look."""

    def __init__(self, flow: str, views: Callable[[], Sequence[StageView]]) -> None:
        self._flow = flow
        self._views = views

    def collect(self) -> Iterable[Metric]:
        views = self._views()
        yield self._state(views)
        yield from self._partitions(views)

    def _state(self, views: Sequence[StageView]) -> Metric:
        family = GaugeMetricFamily(
            "towpath_flow_state", "1 for the state that a stage is in.", labels=("flow", "stage", "state")
        )
        for view in views:
            for state in StageState:
                family.add_metric((self._flow, view.stage, state), float(view.machine.state is state))
        return family

    def _partitions(self, views: Sequence[StageView]) -> Iterator[Metric]:
        labels = ("flow", "stage", "topic", "partition")
        for name, about in (
            ("position", "The next offset to be read."),
            ("end", "The offset after the last record."),
            ("lag", "Offsets between position and end; a partition never has more records to read than that."),
        ):
            family = GaugeMetricFamily(f"towpath_flow_{name}", about, labels=labels)
            for view in views:
                for each in view.sample.get("partitions", ()):
                    family.add_metric((self._flow, view.stage, each["topic"], str(each["partition"])), each[name])
            yield family
