"""How long to wait between tries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadPolicy
from towpath.policy import Delays, constant, delays, exponential, linear, seconds, spelled

MINUTE = 60.0


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (constant("5m", times=4), [5, 5, 5, 5]),
        (linear("5m", times=4), [5, 10, 15, 20]),
        (exponential("1m", factor=2, times=6), [1, 2, 4, 8, 16, 32]),
        (exponential("1m", factor=3, times=5, maximum="1h"), [1, 3, 9, 27, 60]),
        (delays(["30s", "1m", timedelta(hours=2)]), [0.5, 1, 120]),
        (exponential("1m", factor=1, times=3), [1, 1, 1]),
        (exponential("1m", factor=100, times=2), [1, 100]),
        (exponential("5m", times=3), [5, 10, 20]),
        (exponential("5m", times=2, maximum="5m"), [5, 5]),
        (exponential("100d", factor=10, times=3), [144_000, 366 * 1440, 366 * 1440]),
        (linear("183d", times=2), [183 * 1440, 366 * 1440]),
    ],
)
def test_the_waits_are_those_that_were_said(made: Delays, expected: list[float]) -> None:
    assert [wait / MINUTE for wait in made.waits_s] == expected
    assert [made.before(number) for number in range(1, len(expected) + 1)] == list(made.waits_s)
    assert made.before(0) is None
    assert made.before(len(expected) + 1) is None


@pytest.mark.parametrize(
    ("said", "found_s"),
    [
        ("250ms", 0.25),
        ("1s", 1),
        (" 1.5 m ", 90),
        ("2h", 7_200),
        ("1d", 86_400),
        ("366d", 31_622_400),
        (31_622_400, 31_622_400),
        (0, 0),
        (0.0004, 0),
        (0.0126, 0.013),
        (timedelta(milliseconds=1), 0.001),
    ],
)
def test_durations_to_the_millisecond(said: str | float | timedelta, found_s: float) -> None:
    assert seconds(said) == found_s


@pytest.mark.parametrize("said", ["366.1d", 31_622_400.001, -0.001, "1w", "1", "", "m", True])
def test_a_duration_has_a_unit_and_is_at_most_a_leap_year(said: str | float) -> None:
    with pytest.raises(BadPolicy, match="duration"):
        seconds(said)


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0, "0ms"), (0.25, "250ms"), (90, "90s"), (120, "2m"), (5400, "90m"), (7200, "2h"), (172_800, "2d")],
)
def test_the_shortest_way_to_write_it(duration_s: float, text: str) -> None:
    assert spelled(duration_s) == text


def test_what_was_said_is_stored_and_nothing_else() -> None:
    said = {"kind": "exponential", "delay": "1m", "factor": 2, "times": 3}
    assert exponential("1m", times=3).to_json() == said
    assert exponential("60s", times=3, maximum="120s").to_json() == {**said, "maximum": "2m"}
    assert delays(["90s", 0.25]).to_json() == {"kind": "delays", "delays": ["90s", "250ms"]}


def test_waits_are_whole_milliseconds() -> None:
    assert exponential(0.1, factor=1.234, times=2).waits_s == (0.1, 0.123)


def test_a_hundred_times_at_most() -> None:
    assert constant("1s", times=100).times == 100
    assert delays(["1s"] * 100).times == 100
    for make in (lambda: constant("1s", times=101), lambda: delays(["1s"] * 101)):
        with pytest.raises(BadPolicy, match="100"):
            make()


@pytest.mark.parametrize(
    "made",
    [
        constant("5m", times=4),
        linear("250ms", times=3),
        exponential("1m", factor=1.5, times=6, maximum="1h"),
        exponential(2, times=1),
        delays([0, "5s", "1d"]),
    ],
)
def test_json_and_back_is_the_same(made: Delays) -> None:
    assert Delays.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"kind": "sometimes"}, "constant, linear, exponential, delays"),
        ({}, "None"),
        ({"kind": "constant", "delay": "5m"}, "times"),
        ({"kind": "constant", "delay": "5 minutes", "times": 2}, "5 minutes"),
        ({"kind": "constant", "delay": "5m", "times": 0}, "100"),
        ({"kind": "constant", "delay": "5m", "times": True}, "100"),
        ({"kind": "linear", "delay": "-5m", "times": 3}, "the delay"),
        ({"kind": "constant", "delay": "soon", "times": 3}, "the delay"),
        ({"kind": "exponential", "delay": "soon", "times": 3}, "the delay"),
        ({"kind": "exponential", "delay": "1s", "times": 3, "maximum": "soon"}, "maximum"),
        ({"kind": "delays", "delays": ["soon"]}, "delay"),
        ({"kind": "delays", "delays": 3}, "list"),
        ({"kind": ["delays"]}, "constant, linear, exponential, delays"),
        ({"kind": "linear", "delay": "184d", "times": 2}, "368"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "factor": 100.5}, "100"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "factor": True}, "100"),
        ({"kind": "linear", "delay": "100d", "times": 50}, "366"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "maximum": "1m"}, "shorter"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "factor": 0.5}, "100"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "factor": float("nan")}, "100"),
        ({"kind": "delays", "delays": []}, "100"),
        ({"kind": "delays", "delays": "5m"}, "list"),
        ({"kind": "constant", "delay": True, "times": 1}, "True"),
        ({"kind": "constant", "delay": float("inf"), "times": 1}, "366"),
        ({"kind": "constant", "delay": "5m", "times": 2, "often": 1}, "often"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(said: dict[str, Any], what: str) -> None:
    with pytest.raises(BadPolicy, match=what):
        Delays.from_json(said)


@given(st.integers(min_value=0, max_value=366 * 86_400_000))
def test_what_is_spelled_is_read_as_the_same(ms: int) -> None:
    assert round(seconds(spelled(ms / 1000)) * 1000) == ms


@given(
    st.floats(min_value=0.001, max_value=3600, allow_nan=False),
    st.floats(min_value=1, max_value=10),
    st.integers(min_value=1, max_value=100),
)
def test_exponential_waits_never_shrink_and_never_pass_the_maximum(first: float, factor: float, times: int) -> None:
    made = exponential(first, factor=factor, times=times, maximum=7200)
    assert list(made.waits_s) == sorted(made.waits_s)
    assert len(made.waits_s) == times
    assert max(made.waits_s) <= 7200
