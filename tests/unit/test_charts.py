"""Drawings of the console: right in their places, whole in XML, and harmless whatever stands in them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from towpath.flow.stage import MOVES, RESTING, StageState
from towpath.web.console.flows.charts import PLACES, STATE_MEANINGS, flow_chart, joints, machine_chart, nodes_of
from towpath.web.console.layout.charts import Bar, Point, TimeSpan, bar_chart, ceiling, figure, line_chart

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
HOUR = TimeSpan(NOW - timedelta(hours=1), NOW)
MINUTE = timedelta(minutes=1)
HOSTILE = """</title></svg><script>alert(1)</script>"'&<img src=x onerror=alert(1)>"""


def parsed(drawing: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(drawing))  # noqa: S314 - our own


def texts(drawing: Markup, tag: str = "text") -> list[str]:
    return [each.text or "" for each in parsed(drawing).iter(tag)]


def minutes(*values: float | None) -> list[Point]:
    return [Point(HOUR.since + number * MINUTE, value) for number, value in enumerate(values)]


@given(st.floats(1e-6, 1e12))
def test_an_axis_ends_at_a_round_number_not_far_above(value: float) -> None:
    top = ceiling(value)
    assert value * (1 - 1e-9) <= top <= value * 2.5 * (1 + 1e-9)
    assert len(re.sub(r"[^1-9]", "", f"{top:.0e}".partition("e")[0])) == 1


def test_nothing_still_has_an_axis() -> None:
    assert ceiling(0) == 1
    assert texts(line_chart("Lag", [], HOUR), "title")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (7.25, "7.25"), (850, "850"), (1200, "1.2k"), (3e6, "3M"), (2.5e9, "2.5G")]
)
def test_figures_are_short(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_line_is_broken_where_nobody_knows() -> None:
    drawn = parsed(line_chart("Lag", minutes(1, 2, None, None, 3), HOUR))
    lines = [each for each in drawn.iter("path") if each.get("class") == "line"]
    assert [len(each.get("d", "").split("L")) for each in lines] == [2, 1]


def test_a_line_says_in_words_what_it_shows() -> None:
    title = texts(line_chart("Rate", minutes(5, 1200, 30), HOUR, unit="/s"), "title")[0]
    assert "30/s" in title
    assert "1.2k/s" in title


def test_the_highest_value_touches_the_top_and_none_the_bottom() -> None:
    drawn = parsed(line_chart("Lag", minutes(0, 100), HOUR))
    (line,) = [each.get("d", "") for each in drawn.iter("path") if each.get("class") == "line"]
    heights = [float(part.split()[-1]) for part in line.removeprefix("M ").split(" L ")]
    axes = [each.get("d", "").split()[2] for each in drawn.iter("path") if each.get("class") == "axis"]
    assert [f"{height:g}" for height in heights] == [axes[0], axes[-1]]


def test_bars_stand_on_each_other() -> None:
    bars = [Bar(HOUR.since, {"7": 3, "9": 1})]
    found = list(parsed(bar_chart("Errors", bars, HOUR, MINUTE, ["7", "9"])).iter("rect"))
    assert [each.get("class") for each in found] == ["bar s0", "bar s1"]
    bottom, top = ((float(each.get("y", 0)), float(each.get("height", 0))) for each in found)
    assert bottom[1] == pytest.approx(3 * top[1], abs=0.3)
    assert top[0] + top[1] == pytest.approx(bottom[0], abs=0.2)


def test_what_lies_outside_of_the_time_stays_in_the_picture() -> None:
    drawn = parsed(line_chart("Lag", [Point(NOW - timedelta(days=9), 5), Point(NOW + MINUTE, 5)], HOUR))
    places = [float(place) for each in drawn.iter("path") for place in re.findall(r"[\d.]+", each.get("d", ""))]
    assert max(places) <= 460


@given(st.text(max_size=40))
def test_titles_and_series_are_text(name: str) -> None:
    name = "".join(each for each in name if each.isprintable())
    for hostile in (name, HOSTILE):
        drawn = bar_chart(hostile, [Bar(HOUR.since, {hostile: 1})], HOUR, MINUTE)
        parsed(drawn)
        assert "<script" not in drawn
        assert "<img" not in drawn


# The pilot


def test_every_state_has_a_place_of_its_own_and_a_meaning() -> None:
    assert set(PLACES) == set(STATE_MEANINGS) == set(StageState)
    assert len(set(PLACES.values())) == len(StageState)
    assert set(texts(machine_chart(StageState.LOAD))) >= {str(state) for state in StageState} - {"load"}


def test_lines_are_the_moves() -> None:
    drawn = {(each.source, each.target) for each in joints()}
    drawn |= {(each.target, each.source) for each in joints() if each.is_both}
    moves = {(source, target) for source, targets in MOVES.items() for target in targets}
    assert drawn == {(source, target) for source, target in moves if not {source, target} & RESTING}
    # What the two frames stand for.
    assert all(state in MOVES[other] for state in RESTING for other in StageState if other is not state)
    assert all(MOVES[state] - RESTING == {StageState.CONFIGURE} for state in RESTING)


@pytest.mark.parametrize("state", list(StageState))
def test_only_the_present_state_is_lit(state: StageState) -> None:
    drawn = parsed(machine_chart(state))
    lit = [each.text for each in drawn.iter("text") if each.get("class") == "lit"]
    assert lit == [f"● {state}"]  # a sign as well as a colour
    assert sum("lit" in (each.get("class") or "") for each in drawn.iter("rect")) == 1


def test_the_way_by_which_it_came_is_marked() -> None:
    drawn = parsed(machine_chart(StageState.RETRY, StageState.LOAD))
    assert sum(each.get("class") == "edge lit" for each in drawn.iter("path")) == 1


# Flows


TOPOLOGY: dict[str, Any] = {
    "steps": [
        {"name": "orders", "kind": "source", "topics": ["orders"], "inputs": []},
        {"name": "wanted", "kind": "step", "inputs": ["orders"], "expectations": {"positive": "n > 0"}},
        {"name": "left", "kind": "branch", "inputs": ["wanted"]},
        {"name": "right", "kind": "branch", "inputs": ["wanted"]},
        {"name": "again", "kind": "anyof", "inputs": ["left", "right"]},
    ],
    "outputs": [
        {"name": "docs", "input": "again", "sink": "index docs"},
        {"name": "table", "input": "wanted", "sink": "table t"},
    ],
}
TOTALS = {"read": 20000, "filtered": {"wanted": 12}, "delivered": {"docs": 7}}


def test_a_flow_is_drawn_with_what_it_has_counted() -> None:
    said = texts(flow_chart("shop", TOPOLOGY, TOTALS))
    assert {"20,000", "12", "7", "0"} <= {number for text in said for number in re.findall(r"\d[\d,]*\b", text)}


def test_there_is_a_way_for_each_input() -> None:
    drawn = parsed(flow_chart("shop", TOPOLOGY, TOTALS))
    wanted = sum(len(node.inputs) for node in nodes_of(TOPOLOGY, TOTALS))
    assert sum(each.get("class") == "edge" for each in drawn.iter("path")) == wanted == 7


def test_boxes_do_not_lie_on_each_other() -> None:
    drawn = parsed(flow_chart("shop", TOPOLOGY, TOTALS))
    boxes = [tuple(float(each.get(name, 0)) for name in ("x", "y", "width", "height")) for each in drawn.iter("rect")]
    assert len(boxes) == 7
    for number, (x, y, width, height) in enumerate(boxes):
        for left, top, wide, high in boxes[number + 1 :]:
            assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y


def test_topics_lead_to_their_pages() -> None:
    shape = {"steps": [{"name": "a b/c?", "kind": "source", "topics": ["a b/c?"]}]}
    assert [each.get("href") for each in parsed(flow_chart("x", shape, {})).iter("a")] == ["/topics/a%20b%2Fc%3F"]


def test_a_row_that_says_nothing_draws_nothing() -> None:
    assert flow_chart("shop", {}, {}) == ""


def test_names_in_a_flow_are_text() -> None:
    shape = {
        "steps": [
            {"name": HOSTILE, "kind": HOSTILE, "inputs": [], "expectations": {HOSTILE: HOSTILE}},
            {"name": "s", "kind": "source", "topics": [HOSTILE], "inputs": [HOSTILE]},
        ],
        "outputs": [{"name": HOSTILE, "input": "s", "sink": HOSTILE}],
    }
    drawn = flow_chart(HOSTILE, shape, {})
    parsed(drawn)
    assert "<script" not in drawn
    assert "<img" not in drawn
