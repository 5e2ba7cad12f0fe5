"""By what records of a join on columns are compared, and when they happened."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from towpath.errors import BadFlow
from towpath.flow.flow import Flow
from towpath.flow.graph.nodes import Source
from towpath.flow.graph.sources import topic
from towpath.flow.graph.stateful_nodes import ColumnJoin
from towpath.flow.stateful import field, header, key
from towpath.flow.stateful.column_state import cell, event_ms, join_key, watermarks

TWO: dict[str, Any] = {"order": topic("orders"), "payment": topic("payments")}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, Decimal("1.00")),
        (0, -0.0),
        (1e300, int(1e300)),
        (0.5, Decimal("0.5")),
        ("a", b"a"),
        ("", b""),
        (True, True),
    ],
)
def test_equal_columns(one: Any, other: Any) -> None:
    """Numbers are numbers however they are written; a key or header of a record is a text."""
    assert join_key([one, "x"]) == join_key([other, "x"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1, True),
        (0, False),
        (1, b"1"),
        ("true", True),
        (9007199254740993, 9007199254740992.0),
        (1.5, "1.5"),
        ("é", "e\u0301"),
        (b"\xff", "bytes \xff"),
    ],
)
def test_columns_that_differ(one: Any, other: Any) -> None:
    assert join_key([one]) != join_key([other])


@pytest.mark.parametrize("nothing", [None, [1], {}, float("inf")])
def test_equal_to_nothing(nothing: Any) -> None:
    """Null is not even equal to null."""
    assert join_key([nothing]) is None
    assert join_key([1, nothing]) is None


def test_several_columns_do_not_run_together() -> None:
    assert join_key(["ab", "c"]) != join_key(["a", "bc"])
    assert join_key(["a"]) != join_key(["a", ""])


def test_parts_of_a_record() -> None:
    headers = (("h", b"1"), ("h", b"2"))
    assert cell(field("$.a.b"), {"a": {"b": [1]}}, b"k", headers) == [1]
    assert cell(field("$.a.b"), {"a": 7}, b"k", headers) is None
    assert cell(key(), None, b"k", headers) == b"k"
    assert cell(header("h"), None, None, headers) == b"2"
    assert cell(header("i"), None, None, headers) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_700_000_000_123, 1_700_000_000_123),
        (1_700_000_000_123.0, 1_700_000_000_123),
        (b"1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20.123456+01:00", 1_700_000_000_123),
        (b"1969-12-31T23:59:59.999999Z", -1),
    ],
)
def test_times(value: Any, expected: int) -> None:
    assert event_ms(value, "at") == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "at"),
        (True, "time"),
        (1.5, "time"),
        ([], "time"),
        ("2023-11-14T22:13:20", "timestamp"),
        ("yesterday", "timestamp"),
        (10**15, "9999"),
        (Decimal("1e400"), "time"),
    ],
)
def test_what_is_no_time_says_why(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        event_ms(value, "at")


def test_a_flow_says_it() -> None:
    flow = Flow("x")
    made = flow.join_on(
        **TWO,
        on={"order": field("id"), "payment": (field("order"),)},
        time={"order": field("at"), "payment": None},
        within_s=3600,
        unmatched={"order": "deliver", "payment": "drop"},
    ).join
    assert isinstance(made, ColumnJoin)
    assert made.on == ((field("id"),), (field("order"),))
    assert made.time == (field("at"), None)
    assert (made.within_ms, made.late_ms, made.unmatched) == (3_600_000, 600_000, ("deliver", "drop"))
    assert "field('$.order')" in made.kept
    assert "late" not in made.kept


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"within_s": None}, "within_s"),
        ({"within_s": -1}, "within_s"),
        ({"late_s": float("nan")}, "late_s"),
        ({"on": "id"}, "on="),
        ({"on": ()}, "on="),
        ({"on": {"order": field("id")}}, "each of"),
        ({"on": {"order": field("id"), "payment": (field("a"), field("b"))}}, "columns"),
        ({"time": "at"}, "time="),
        ({"late": "maybe"}, "late"),
        ({"unmatched": "wait"}, "unmatched"),
        ({"most_per_key": 0}, "most_per_key"),
        ({"key": key()}, "key="),
        ({"schema": "id int"}, "schema="),
        ({"third": topic("third")}, "two"),
        ({"payment": topic("orders")}, "topics"),
        ({"on": None}, "on="),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadFlow, match=why):
        Flow("x").join_on(**{**TWO, "on": field("id"), "within_s": 1, **said})


def test_a_dataframe_step_is_refused_behind_it() -> None:
    flow = Flow("x")
    joined = flow.join_on(**TWO, on=field("id"), within_s=1)
    with pytest.raises(BadFlow, match="each"):
        flow.step(joined)


def test_the_watermark_is_that_of_the_input_furthest_behind_and_never_goes_back() -> None:
    source = Flow("x").join_on(**TWO, on=field("id"), within_s=1, late_s=2, name="both")
    assert isinstance(source, Source)
    assert watermarks([source], {"both/order": 9000}, {}) == {}, "payments have sent nothing"
    times = {"both/order": 9000, "both/payment": 5000}
    assert watermarks([source], times, {}) == {"both": 3000}
    assert watermarks([source], times, {"both": 4000}) == {"both": 4000}
    assert watermarks([source], {}, {"both": 4000}) == {"both": 4000}


def test_limits_are_no_part_of_what_is_kept() -> None:
    """Else a checkpoint could not be gone on with after `within_s` was changed."""
    joins = [
        Flow("x").join_on(**TWO, on=field("id"), within_s=within, late_s=late).join
        for within in (1, 2)
        for late in (1, 2)
    ]
    assert len({str(join) for join in joins}) == 4
    assert len({join.kept for join in joins if isinstance(join, ColumnJoin)}) == 1
