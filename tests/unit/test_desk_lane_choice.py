"""Which records of a lane go now, and up to where it is done."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.replay.lane import LaneChoice, LaneProgress, LaneTerms, Order, choose


class Lying(NamedTuple):
    offset: int
    due_at: int
    spread: float = 0.0
    bytes: int = 1


def lying(*dues: int) -> list[Lying]:
    return [Lying(offset, due) for offset, due in enumerate(dues)]


def test_strict_stops_at_the_first_that_is_not_due() -> None:
    assert choose(lying(1, 2, 9, 3), LaneTerms(5)) == LaneChoice((0, 1), 9)
    assert choose(lying(9, 1), LaneTerms(5)) == LaneChoice((), 9)
    assert choose(lying(1, 2), LaneTerms(5)) == LaneChoice((0, 1), None)
    assert choose([], LaneTerms(5)) == LaneChoice((), None)


def test_all_due_passes_over_what_is_not() -> None:
    assert choose(lying(1, 9, 3, 8), LaneTerms(5, "all-due")) == LaneChoice((0, 2), 8)


def test_no_more_than_so_many_go_at_once() -> None:
    assert choose(lying(1, 2, 3), LaneTerms(5, most=2)) == LaneChoice((0, 1), 3)
    assert choose(lying(1, 2, 3), LaneTerms(5, "all-due", most=2)) == LaneChoice((0, 1), 3)
    large = [Lying(0, 1, 0.0, 10), Lying(1, 1, 0.0, 10)]
    assert choose(large, LaneTerms(5, most_bytes=15)).taken == (0,)
    assert choose(large, LaneTerms(5, most_bytes=5)).taken == (0,)


def test_jitter_only_delays() -> None:
    spread = [Lying(0, 100, 0.5), Lying(1, 100, 0.0)]
    assert choose(spread, LaneTerms(100, jitter_us=10)) == LaneChoice((), 105)
    assert choose(spread, LaneTerms(100, "all-due", jitter_us=10)) == LaneChoice((1,), 105)
    assert choose(spread, LaneTerms(105, jitter_us=10)) == LaneChoice((0, 1), None)


def test_what_was_hurried_goes_now_and_the_rest_does_not() -> None:
    assert choose([Lying(0, 100, 0.9), Lying(1, 200)], LaneTerms(5, jitter_us=50, hurried_to=101)) == LaneChoice(
        (0,), 200
    )


ORDERS: list[Order] = ["strict", "all-due"]


@pytest.mark.parametrize("order", ORDERS)
@given(dues=st.lists(st.integers(0, 100), max_size=30), now=st.integers(0, 100), jitter=st.integers(0, 50))
def test_nothing_goes_before_it_is_due(order: Order, dues: list[int], now: int, jitter: int) -> None:
    records = [Lying(offset * 3, due, (offset % 7) / 7) for offset, due in enumerate(dues)]
    choice = choose(records, LaneTerms(now, order, jitter))
    assert all(records[place].due_at <= now for place in choice.taken)
    if order == "strict":
        assert list(choice.taken) == list(range(len(choice.taken)))
    else:
        terms = LaneTerms(now, order, jitter)
        due = [place for place, record in enumerate(records) if terms.release_at(record) <= now]
        assert list(choice.taken) == due
    assert choice.next_at is None or choice.next_at > now or order == "strict"


@given(st.data(), st.lists(st.integers(0, 60), min_size=1, max_size=40), st.booleans())
def test_each_record_goes_once_whatever_is_forgotten_between(
    data: st.DataObject, dues: list[int], strict: bool
) -> None:
    """As a lane does it: only the standing survives; all else is read again, from the safe position."""
    records = [Lying(offset * 2 + 1, due) for offset, due in enumerate(dues)]
    end = len(records) * 2 + 3
    standing, gone = LaneProgress(), list[int]()
    for now in range(61):
        window = [each for each in records if each.offset >= standing.position and each.offset not in standing.beyond]
        choice = choose(window, LaneTerms(now, "strict" if strict else "all-due", most=data.draw(st.integers(1, 5))))
        taken = [window[place].offset for place in choice.taken]
        left = [each.offset for each in window if each.offset not in taken]
        standing = standing.after(taken, left, end)
        gone += taken
        assert all(offset in gone for offset in range(1, standing.position, 2) if offset < end - 2)
        assert set(standing.beyond) == {offset for offset in gone if offset >= standing.position}
    while len(gone) < len(records):
        window = [each for each in records if each.offset >= standing.position and each.offset not in standing.beyond]
        taken = [window[place].offset for place in choose(window, LaneTerms(100)).taken]
        standing = standing.after(taken, [], end)
        gone += taken
    assert sorted(gone) == [record.offset for record in records]
    assert standing == LaneProgress(end, ())
