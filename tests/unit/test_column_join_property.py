"""Any records, cut into any batches: every pair that the limits allow, once, and every record in one place."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.column_join import Joining, Row, order, pairs, payment

SHARDS = 3
END = 1 << 50


class Arrival(NamedTuple):
    is_order: bool
    id: int
    at: int


arrivals = st.builds(Arrival, st.booleans(), st.integers(0, 3), st.integers(0, 60))
batches_of = st.lists(st.lists(arrivals, min_size=1, max_size=8), max_size=8)


class Oracle:
    """All pairs, by comparing each with each."""

    def __init__(self, within_ms: int, late_ms: int) -> None:
        self.within_ms, self.late_ms = within_ms, late_ms
        self.taken: list[tuple[int, Arrival]] = []
        self.late = 0
        self.highest: dict[bool, int] = {}
        self.watermark: int | None = None

    def batch(self, numbered: list[tuple[int, Arrival]]) -> None:
        """What is late is so by the watermark of the batches before."""
        for number, each in numbered:
            if self.watermark is not None and each.at < self.watermark:
                self.late += 1
            else:
                self.taken.append((number, each))
        for _, each in numbered:
            self.highest[each.is_order] = max(each.at, self.highest.get(each.is_order, each.at))
        if len(self.highest) == 2:
            self.watermark = max(min(self.highest.values()) - self.late_ms, self.watermark or -END)

    def pairs(self) -> Counter[tuple[int, int]]:
        return Counter(
            (one, two)
            for one, left in self.taken
            for two, right in self.taken
            if left.is_order and not right.is_order and left.id == right.id
            if abs(left.at - right.at) <= self.within_ms
        )


@settings(max_examples=60, deadline=None)
@given(batches_of, st.integers(0, 30), st.sampled_from([0, 5, 100]), st.integers(0, 2**30))
def test_each_pair_once_at_any_cut(batches: list[list[Arrival]], within_ms: int, late_ms: int, turn: int) -> None:
    joining = Joining.of(SHARDS, within_s=within_ms / 1000, late_s=late_ms / 1000, unmatched="drop")
    oracle, found, number = Oracle(within_ms, late_ms), Counter[tuple[int, int]](), 0
    for batch in batches:
        numbered = [(number + at, each) for at, each in enumerate(batch)]
        number += len(batch)
        found.update(pairs(joining.run(*(_row(at, each) for at, each in numbered), watermark=oracle.watermark)))
        oracle.batch(numbered)
        times = {name == "both/order": at for name, at in joining.seen.items()}
        assert times == oracle.highest
        if turn >> number % 30 & 1 and oracle.watermark is not None:
            joining.tick(oracle.watermark, shard=number % SHARDS)  # whenever it comes, it changes no result
    expected = oracle.pairs()
    assert found == expected
    for shard in range(SHARDS):
        joining.tick(END, shard=shard)
    assert joining.kept == 0
    matched = {("o", one) for one, _ in expected} | {("p", two) for _, two in expected}
    places = joining.places
    assert places["joining"] == 0
    assert places["Late"] == oracle.late
    assert places["unmatched"] == len(oracle.taken) - len(matched)
    assert places["loaded"] + places["aggregated"] == len(matched)
    assert sum(places.values()) == number, "a record is in no place, or in two"


def _row(number: int, each: Arrival) -> Row:
    return order(number, each.id, each.at) if each.is_order else payment(number, each.id, each.at)
