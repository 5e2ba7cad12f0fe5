"""Finding the records on which a batch fails as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.run.poison_search import cut, search


def part(start: int, stop: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("t", "id", partition, start, stop)


class Batch:
    """Fails where it holds one of the bad offsets; counts how often it is tried."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.tries = 0

    def fails(self, tried: OffsetRange) -> bool:
        self.tries += 1
        return any(tried.start <= offset < tried.stop for offset in self.bad)


@given(st.sets(st.integers(0, 4_999), max_size=5))
def test_finds_all_and_nothing_else(bad: set[int]) -> None:
    batch = Batch(bad)
    found = search([part(0, 5_000)], batch.fails, 20, lambda: False)
    assert {each.start for each in found.records} == bad
    assert all(each.stop == each.start + 1 for each in found.records)
    assert found.unsearched == []


def test_one_of_a_million_takes_few_tries() -> None:
    batch = Batch({777_777})
    search([part(0, 1_000_000)], batch.fails, 20, lambda: False)
    assert batch.tries <= 1 + 5 * 16


def test_no_more_than_asked_for() -> None:
    """What was not searched is told, so that nobody takes it for clean."""
    found = search([part(0, 100)], Batch(set(range(100))).fails, 3, lambda: False)
    assert [each.start for each in found.records] == [0, 1, 2]
    assert sum(each.stop - each.start for each in found.unsearched) == 97


def test_no_longer_than_asked_for() -> None:
    found = search([part(0, 100), part(0, 7, 1)], Batch({5}).fails, 20, lambda: True)
    assert found.records == []
    assert found.unsearched == [part(0, 100), part(0, 7, 1)]


def test_a_whole_that_fails_without_its_parts() -> None:
    """No record is at fault when only all of them together fail: memory, for one."""
    found = search([part(0, 100)], lambda tried: tried.stop - tried.start == 100, 20, lambda: False)
    assert found.records == []


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_cut_leaves_nothing_out(start: int, length: int) -> None:
    pieces = cut(part(start, start + length))
    assert [offset for each in pieces for offset in range(each.start, each.stop)] == list(range(start, start + length))
    assert len(pieces) == min(16, length)
