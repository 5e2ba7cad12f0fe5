"""A sweep tries every combination in one case, and a failure names each one that failed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from tests.support.sweep import sweep


def test_every_combination_is_tried() -> None:
    tried: list[Any] = []

    @sweep("a", [1, 2])
    @sweep(("b", "c"), [(3, "x"), (4, "y")])
    def case(fixture: str, a: int, b: int, c: str) -> None:
        tried.append((fixture, a, b, c))

    assert list(inspect.signature(case).parameters) == ["fixture"]  # what pytest gives
    case(fixture="f")
    assert tried == [("f", 1, 3, "x"), ("f", 1, 4, "y"), ("f", 2, 3, "x"), ("f", 2, 4, "y")]


def test_every_failure_is_told_and_none_ends_the_others() -> None:
    @sweep("a", [1, 2, 3, 4])
    def case(a: int) -> None:
        if a == 2:
            raise KeyError("gone")
        with pytest.raises(ZeroDivisionError):
            a / (a - 3)

    with pytest.raises(AssertionError) as caught:
        case()
    head, *told = str(caught.value).splitlines()
    assert head == "3 of 4 failed:"
    assert [line.partition(":")[0] for line in told] == ["- a=1", "- a=2", "- a=4"]
    assert isinstance(caught.value.__cause__, pytest.fail.Exception)


def test_when_the_time_of_the_case_is_over_none_is_tried_any_more() -> None:
    tried: list[int] = []

    @sweep("a", [1, 2, 3])
    def case(a: int) -> None:
        tried.append(a)
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception):
        case()
    assert tried == [1]


def test_a_sweep_over_nothing_is_refused() -> None:
    """It could not fail."""
    with pytest.raises(AssertionError):
        sweep("a", [])
