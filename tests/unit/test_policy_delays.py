"""How long to wait between tries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.delays import Delays, constant, delays, exponential, linear, seconds, spelled
from towpath.errors import BadPolicy

MINUTE = 60.0


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (constant("5m", times=4), [5, 5, 5, 5]),
        (linear("5m", times=4), [5, 10, 15, 20]),
        (exponential("1m", factor=2, times=6), [1, 2, 4, 8, 16, 32]),
        (exponential("1m", factor=3, times=5, maximum="1h"), [1, 3, 9, 27, 60]),
        (delays(["30s", "1m", timedelta(hours=2)]), [0.5, 1, 120]),
    ],
)
def test_the_waits_are_those_that_were_said(made: Delays, expected: list[float]) -> None:
    assert [wait / MINUTE for wait in made.waits_s] == expected
    assert [made.before(number) for number in range(1, len(expected) + 1)] == list(made.waits_s)
    assert made.before(0) is None
    assert made.before(len(expected) + 1) is None


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
        ({}, "not None"),
        ({"kind": "constant", "delay": "5m"}, "times"),
        ({"kind": "constant", "delay": "5 minutes", "times": 2}, "5 minutes"),
        ({"kind": "constant", "delay": "5m", "times": 0}, "from 1 to 100"),
        ({"kind": "constant", "delay": "5m", "times": True}, "from 1 to 100"),
        ({"kind": "linear", "delay": "-5m", "times": 3}, "-5m"),
        ({"kind": "linear", "delay": "100d", "times": 50}, "366"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "maximum": "1m"}, "shorter than the first"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "factor": 0.5}, "from 1 to 100"),
        ({"kind": "exponential", "delay": "1h", "times": 3, "factor": float("nan")}, "from 1 to 100"),
        ({"kind": "delays", "delays": []}, "from 1 to 100"),
        ({"kind": "delays", "delays": "5m"}, "a list"),
        ({"kind": "constant", "delay": True, "times": 1}, "not True"),
        ({"kind": "constant", "delay": float("inf"), "times": 1}, "366 days"),
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
