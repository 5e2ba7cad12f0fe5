"""Pages of what no index gives: nothing is missed or shown twice, and no page looks for long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.db.paging import LONGEST_STRETCH, STRETCH, SearchPage, search


@dataclass(frozen=True)
class Row:
    seq: int


class Table:
    """Numbers, of which some are looked for; each row that is read takes its time."""

    def __init__(self, rows: Sequence[int], is_wanted: Callable[[int], bool], row_s: float = 0.0) -> None:
        self.rows = sorted(rows, reverse=True)
        self.is_wanted = is_wanted
        self.row_s = row_s
        self.now = 0.0
        self.reads: list[tuple[int, int]] = []

    def read(self, before: int, floor: int, limit: int) -> list[Row]:
        self.reads.append((before, floor))
        found: list[Row] = []
        for seq in self.rows:
            if floor <= seq < before and len(found) < limit:
                self.now += self.row_s
                found += [Row(seq)] if self.is_wanted(seq) else []
        return found

    def newest_below(self, below: int) -> int | None:
        return next((seq for seq in self.rows if seq < below), None)

    def page(self, limit: int, before: int | None = None, lowest: int = 0, look_s: float = 1.0) -> SearchPage[Row]:
        return search(
            self.read,
            self.newest_below,
            limit=limit,
            before=before,
            lowest=lowest,
            look_s=look_s,
            clock=lambda: self.now,
        )

    def walk(self, limit: int, lowest: int = 0, look_s: float = 1.0) -> list[int]:
        found: list[int] = []
        page = self.page(limit, None, lowest, look_s)
        while True:
            assert len(page.items) <= limit
            found += [row.seq for row in page.items]
            if page.next is None:
                return found
            page = self.page(limit, page.next, lowest, look_s)


# Numbers that lie close together, with gaps of all sizes between them.
NUMBERS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 4)).map(lambda pair: pair[1] * (STRETCH // 2) ** (pair[0] / 10)),
    max_size=40,
).map(lambda gaps: [1 + int(sum(gaps[: n + 1])) for n in range(len(gaps))])


@given(NUMBERS, st.integers(1, 5), st.integers(1, 7), st.sampled_from([0.0, 0.1, 3.0]), st.integers(0, 200_000))
def test_pages_hold_all_that_is_looked_for_in_order(
    numbers: list[int], limit: int, rare: int, row_s: float, lowest: int
) -> None:
    table = Table(sorted(set(numbers)), lambda seq: seq % rare == 0, row_s)
    expected = [seq for seq in table.rows if seq % rare == 0 and seq >= lowest]
    assert table.walk(limit, lowest) == expected


def test_a_page_stops_when_its_time_is_over() -> None:
    table = Table(range(1, 10 * STRETCH), lambda seq: seq == 5, row_s=1.0 / STRETCH)
    page = table.page(10, look_s=2.0)
    assert (page.items, page.next) == ([], 8 * STRETCH)
    assert table.now == pytest.approx(2.0)
    assert table.walk(10, look_s=2.0) == [5]


def test_a_page_that_is_full_reads_no_further() -> None:
    table = Table(range(1, 10 * STRETCH), lambda seq: True)
    page = table.page(3)
    assert [row.seq for row in page.items] == [10 * STRETCH - 1, 10 * STRETCH - 2, 10 * STRETCH - 3]
    assert page.next == 10 * STRETCH - 3
    assert len(table.reads) == 1


def test_a_page_that_holds_the_rest_is_the_last() -> None:
    table = Table([1, 2, 3], lambda seq: True)
    assert table.page(3).next is None
    assert table.page(2).next == 2
    assert table.page(2, before=2) == SearchPage([Row(1)], None)
    assert Table([], lambda seq: True).page(5) == SearchPage([], None)


def test_large_gaps_are_passed_at_once_and_do_not_make_the_next_look_long() -> None:
    table = Table([*range(1, 1000), 10**12, 10**18], lambda seq: False)
    assert table.page(5) == SearchPage([], None)
    assert len(table.reads) == 3
    assert all(before - floor <= LONGEST_STRETCH for before, floor in table.reads)


def test_stretches_grow_where_reading_is_quick() -> None:
    table = Table(range(1, 40 * STRETCH, 100), lambda seq: False)
    assert table.page(5) == SearchPage([], None)
    sizes = [before - floor for before, floor in table.reads]
    assert sizes[:5] == [STRETCH, 2 * STRETCH, 4 * STRETCH, 8 * STRETCH, 16 * STRETCH]
    assert max(sizes) == LONGEST_STRETCH
