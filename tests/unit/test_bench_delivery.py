"""The parts of `make bench-delivery` that decide what is measured, and what it is worth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from bench.delivery import goals
from bench.delivery.cause import cause_of
from bench.delivery.contenders.bare import BareSegment
from bench.delivery.findings import delivery_finding
from bench.delivery.lines import ROUTES, WAYS, Measure, Part, lines
from bench.delivery.recovery import Recovered
from bench.delivery.settings import RECORDS, batch_of_recovery
from bench.delivery.spans import Span, span_of, took_s
from bench.delivery.way import Way
from bench.findings import Samples
from bench.flow.process import Program, crew
from bench.line import Line
from tests.support.segments import TOPIC, Bench, Listing, batches, call, load

from towpath.flow.sinks.sink import Refusal
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.loader import Deliver
from towpath.flow.worker.reader import ReadRecords
from towpath.settings import Settings

# Rows


def row(ours: Measure, peer: Measure | None = None) -> Line:
    [found] = [each for each in lines(tuple(Part)) if (each.ours, each.peer) == (ours, peer)]
    return found


def test_every_route_has_both_goals() -> None:
    for route in ROUTES:
        bounds = [each.goal.bound for each in lines((route,)) if each.goal is not None]
        assert sorted(bounds) == [goals.EXACTLY_ONCE, goals.AT_MOST_ONCE], route


def test_every_way_of_a_route_is_in_a_row_of_it() -> None:
    for route in ROUTES:
        assert {measure for each in lines((route,)) for measure in each.measures} == set(WAYS[route])


def test_the_price_of_a_stage_that_decides_is_shown_without_a_goal() -> None:
    assert row(Measure.DEMO_DECIDED, Measure.DEMO_UNDECIDED).goal is None
    assert WAYS[Part.DEMO][Measure.DEMO_DECIDED] is Way.DECIDED


@pytest.mark.parametrize(("exactly", "most", "is_met"), [(90.0, 100.0, True), (89.0, 100.0, False), (110, 100, True)])
def test_exactly_once_may_cost_a_tenth(exactly: float, most: float, is_met: bool) -> None:
    samples = Samples({Measure.TOPIC_EXACTLY: [[exactly]], Measure.TOPIC_MOST: [[most]]})
    assert delivery_finding(row(Measure.TOPIC_EXACTLY, Measure.TOPIC_MOST), samples).is_met is is_met


def test_ratios_are_taken_within_a_round() -> None:
    """The second round has a slow machine, which says nothing about a guarantee."""
    samples = Samples({Measure.TOPIC_EXACTLY: [[95.0], [9.5], [95.0]], Measure.TOPIC_MOST: [[100.0], [10.0], [100.0]]})
    assert delivery_finding(row(Measure.TOPIC_EXACTLY, Measure.TOPIC_MOST), samples).ratio == "0.95"


def test_one_slow_recovery_is_one_too_many() -> None:
    samples = Samples({Measure.RECOVERED: [[2.0], [10.5], [3.0]]})
    assert not delivery_finding(row(Measure.RECOVERED), samples).is_met
    samples = Samples({Measure.RECOVERED: [[2.0], [9.9], [3.0]]})
    assert delivery_finding(row(Measure.RECOVERED), samples).is_met


def test_what_was_not_measured_is_not_met() -> None:
    assert not delivery_finding(row(Measure.RECOVERED), Samples()).is_met
    assert not delivery_finding(row(Measure.LEASE), Samples()).is_met


@pytest.mark.parametrize("records", [3, 20_000, RECORDS, 10_000_000])
def test_a_driver_can_be_killed_in_its_second_batch(records: int) -> None:
    assert records / batch_of_recovery(records) >= 3


# The clock


def test_the_clock_runs_from_the_first_look_to_the_end_of_the_last_batch() -> None:
    told: list[tuple[str, dict[str, int]]] = [
        ("2026-01-01T00:00:00.000Z", {"latestOffset": 50, "addBatch": 900, "triggerExecution": 1_000}),
        ("2026-01-01T00:00:01.500Z", {"latestOffset": 50, "addBatch": 900, "triggerExecution": 1_250}),
        ("2026-01-01T00:00:09.000Z", {"latestOffset": 3, "triggerExecution": 4}),  # an idle look
    ]
    spans = [span for one in told if (span := span_of(*one)) is not None]
    assert took_s(spans) == pytest.approx(2.70)


def test_a_query_without_a_batch_has_no_rate() -> None:
    with pytest.raises(ValueError, match="batch"):
        took_s([])
    assert took_s([Span(1.0, 3.0)]) == 2.0


# The plain foreachBatch


def bare(home: Path, values: list[Any], sinks: list[Listing], *functions: Any) -> None:
    home.mkdir()
    place = BatchContext("flow", "stage", "hash", str(home), "0123456789abcdef", Settings(), {TOPIC: "id-of-clicks"})
    begin = ReadRecords(TOPIC, 1000, "refuse", None, {})
    loads = tuple(load(sink, output=f"out{at}") for at, sink in enumerate(sinks))
    segment = BareSegment("segment0", begin, tuple(map(call, functions)), Deliver(loads), place)
    assert list(segment.run(batches(values, 3), "0")) == []
    assert list(home.iterdir()) == []  # nothing is written down


def doubled(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "x": 2 * document["x"]}


def test_it_does_the_same_work_as_a_segment(tmp_path: Path) -> None:
    values = [{"x": number, "y": "z"} for number in range(7)]
    ours, plain = [Listing(), Listing(may_refuse=True)], [Listing(), Listing(may_refuse=True)]
    loads = [load(sink, output=f"out{at}") for at, sink in enumerate(ours)]
    Bench(tmp_path / "reports").run(values, *loads, calls=(call(doubled),))
    bare(tmp_path / "bare", values, plain, doubled)
    for one, other in zip(ours, plain, strict=True):
        assert other.payloads == one.payloads
        assert (other.ids, other.delivery_ids) == (one.ids, one.delivery_ids)
        assert (other.finished, other.closed) == (1, 1)


def test_it_ends_at_what_fails_and_at_what_is_refused(tmp_path: Path) -> None:
    """Else it would be fast because it does less."""
    with pytest.raises(ValueError, match="failed"):
        bare(tmp_path / "fails", [{"x": 1}, b"{"], [Listing()])
    refusing = Listing(on_write=lambda deliveries: [Refusal(deliveries, 0, 9, "TooLate", "no")])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="TooLate"):
        bare(tmp_path / "refuses", [{"x": 1}], [refusing])


# The process of a route


def test_of_an_error_of_spark_the_line_of_the_worker_is_told() -> None:
    text = "StreamingQueryException: [STREAM_FAILED] Query ended\n  File x\nKeyError: 'y'\n=== Query ===\nPlan"
    assert cause_of(text) == "KeyError: 'y'"
    assert cause_of("something else\nmore") == "something else"


ECHO = """
import json, sys
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps([len(line.strip()), json.loads(sys.argv[1])["home"] == "given"]), flush=True)
"""


def test_a_process_is_told_what_to_do_again_and_again_and_can_be_killed() -> None:
    with crew(Program([sys.executable, "-c", ECHO]), {"home": "given"}) as at_work:
        at_work.wait_until_ready()
        for what in ("exactly-once", "go"):
            at_work.begin(what)
            assert at_work.figures() == [len(what), True]
        at_work.kill()
        with pytest.raises(RuntimeError, match="nothing"):
            at_work.figures()


def test_a_start_of_spark_that_was_held_up_makes_no_recovery_look_short() -> None:
    """Seen on a busy machine: 249 s for Spark alone made a recovery of 121 s one of less than nothing."""
    found = Recovered(first_output_s=121.4, ready_s=62.9, lease_s=10.1)
    assert found.beyond_s([249.1]) == pytest.approx(58.5)
    assert found.beyond_s([249.1, 12.0]) == pytest.approx(109.4)
