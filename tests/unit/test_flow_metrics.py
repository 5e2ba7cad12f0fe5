"""What Prometheus gets to see."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from towpath.core.events import Event, EventKind
from towpath.errors import BadSettings
from towpath.flow.run.flow_run import StageView
from towpath.flow.run.metrics import FlowMetrics
from towpath.flow.stage import StageMachine

SAMPLE = {"partitions": [{"topic": "t", "partition": 1, "position": 5, "end": 9, "lag": 4}]}


def metrics() -> FlowMetrics:
    made = FlowMetrics("f", lambda: [StageView("t", StageMachine.new(0), SAMPLE)])
    made.on_event(Event(EventKind.FLOW_MOVED, "f/t", data={"from": "extract", "to": "transform", "batch_id": 0}))
    counts = {"read": 9, "loaded": 5, "filtered": {"a": 1, "b": 1}, "failed": {"7": 2}, "delivered": {"out": 5}}
    made.on_event(Event(EventKind.BATCH_COMMITTED, "f/t", data={"batch_id": 0, "took_s": 0.3, **counts}))
    kept = {"loaded": 1, "filtered": {}, "failed": {}, "delivered": {}, "joining": 5, "duplicate": 3}
    made.on_event(Event(EventKind.BATCH_COMMITTED, "f/kept", data={"batch_id": 0, "took_s": 0.3, **kept}))
    more = {"loaded": 2, "filtered": {}, "failed": {}, "delivered": {}, "joining": -2, "aggregated": 2}
    made.on_event(Event(EventKind.BATCH_COMMITTED, "f/kept", data={"batch_id": 1, "took_s": 0.3, **more}))
    made.on_event(Event(EventKind.TOPIC_CREATED_BY_HAND, "other"))
    return made


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("towpath_flow_records_total", {"place": "loaded"}, 5),
        ("towpath_flow_records_total", {"place": "filtered"}, 2),
        ("towpath_flow_records_total", {"place": "failed"}, 2),
        ("towpath_flow_records_total", {"stage": "kept", "place": "duplicate"}, 3),
        ("towpath_flow_records_total", {"stage": "kept", "place": "aggregated"}, 2),
        ("towpath_flow_joining", {"stage": "kept"}, 3),
        ("towpath_flow_failures_total", {"code": "7"}, 2),
        ("towpath_flow_deliveries_total", {"output": "out"}, 5),
        ("towpath_flow_batch_seconds_count", {}, 1),
        ("towpath_flow_moves_total", {"source": "extract", "target": "transform"}, 1),
        ("towpath_flow_state", {"state": "stopped"}, 1),
        ("towpath_flow_state", {"state": "load"}, 0),
        ("towpath_flow_lag", {"topic": "t", "partition": "1"}, 4),
        ("towpath_flow_position", {"topic": "t", "partition": "1"}, 5),
        ("towpath_flow_end", {"topic": "t", "partition": "1"}, 9),
    ],
)
def test_values(name: str, labels: dict[str, str], value: float) -> None:
    assert metrics().registry.get_sample_value(name, {"flow": "f", "stage": "t", **labels}) == value


def test_served_on_the_loopback_interface() -> None:
    made = metrics()
    port = made.serve(0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b'towpath_flow_lag{flow="f",partition="1",stage="t",topic="t"} 4.0' in answer.read()
    with pytest.raises(BadSettings, match=f"port {port}"):
        made.serve(port)


def test_every_metric_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"`(towpath_flow_\w+)`", page))
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in metrics().registry.collect()
    }
    assert documented == served
