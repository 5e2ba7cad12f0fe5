"""What a stage remembers of its last hour."""

from __future__ import annotations

import json

import pytest

from towpath.flow.stage.history import EVERY_S, MOST_POINTS, LagHistory, LagPoint, Speeds, lag_points


def seen(history: LagHistory, *looks: tuple[float, int]) -> list[LagPoint]:
    for now, lag in looks:
        history.see(lag, 1.5, now, lambda now=now: 1_000 + now)  # type: ignore[misc]
    return lag_points({"history": history.stored()})


def test_a_point_has_the_highest_lag_since_the_one_before() -> None:
    """A peak between two points would not be seen otherwise."""
    found = seen(LagHistory(), (0, 3), (10, 90), (20, 4), (EVERY_S, 5), (EVERY_S * 2, 0))
    assert found == [LagPoint(1000, 3, 1.5), LagPoint(1030, 90, 1.5), LagPoint(1060, 5, 1.5)]


def test_it_goes_on_where_the_row_has_it() -> None:
    first = LagHistory()
    seen(first, (0, 7))
    again = LagHistory(json.loads(json.dumps(first.stored())))
    assert [point.lag for point in seen(again, (500, 8))] == [7, 8]


def test_it_does_not_grow_for_ever() -> None:
    found = seen(LagHistory(), *((number * EVERY_S, number) for number in range(MOST_POINTS + 50)))
    assert (len(found), found[-1].lag) == (MOST_POINTS, MOST_POINTS + 49)


def test_a_row_of_an_older_version_has_no_past() -> None:
    assert lag_points({"lag": 3}) == []


def test_speed_is_over_the_window() -> None:
    speeds: Speeds[str] = Speeds(10)
    assert speeds.of("a") == 0
    for second in range(31):
        speeds.see({"a": second * 5, "b": 100 - second}, float(second))
    assert speeds.of("a") == pytest.approx(5)
    assert speeds.of("b") == 0  # moved back by a reset
    assert speeds.of("c") == 0


def test_speed_falls_when_nothing_moves_any_more() -> None:
    speeds: Speeds[str] = Speeds(10)
    speeds.see({"a": 0}, 0)
    speeds.see({"a": 100}, 1)
    assert speeds.of("a") == 100
    for second in range(2, 13):
        speeds.see({"a": 100}, float(second))
    assert speeds.of("a") == 0
