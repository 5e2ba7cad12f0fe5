"""Which numbers of a sender were seen, held against somebody who remembers all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.flow.stateful import dedupe as window
from towpath.flow.stateful.dedupe import SequenceVerdict, SequenceWindow

SIZE = 5
NUMBERS = st.lists(st.integers(-3, 40), max_size=120)


class Naive:
    """Keeps every number for ever."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.epoch: int | None = None
        self.numbers: set[int] = set()

    def see(self, number: int, epoch: int) -> SequenceVerdict:
        if self.epoch is not None and epoch < self.epoch:
            return SequenceVerdict.LATE
        if epoch != self.epoch:
            self.epoch, self.numbers = epoch, set()
        if number in self.numbers:
            return SequenceVerdict.BEFORE
        if self.numbers and number < max(self.numbers) - self.size:
            return SequenceVerdict.LATE
        self.numbers.add(number)
        return SequenceVerdict.NEW


@given(NUMBERS, st.integers(0, 60))
def test_answers_as_one_who_remembers_everything(numbers: list[int], size: int) -> None:
    seen, naive = SequenceWindow(), Naive(size)
    for number in numbers:
        assert seen.see(number, 0, size) is naive.see(number, 0)
        seen = SequenceWindow.from_value(seen.to_value())  # as it is between two batches


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=80))
def test_a_higher_epoch_begins_anew_and_a_lower_one_is_late(numbers: list[tuple[int, int]]) -> None:
    seen, naive = SequenceWindow(), Naive(SIZE)
    for number, epoch in numbers:
        assert seen.see(number, epoch, SIZE) is naive.see(number, epoch)


@given(NUMBERS)
def test_stretches_never_touch(numbers: list[int]) -> None:
    seen = SequenceWindow()
    for number in numbers:
        seen.see(number, 0, 100)
        assert seen.edges == sorted(set(seen.edges))
        assert len(seen.edges) % 2 == 0


def test_a_sender_without_gaps_is_one_stretch() -> None:
    seen = SequenceWindow()
    for number in range(100_000):
        assert seen.see(number, 0, SIZE) is SequenceVerdict.NEW
    assert seen.to_value() == [0, 0, 100_000]
    assert seen.see(17, 0, SIZE) is SequenceVerdict.BEFORE, "far behind the window, and known all the same"


@given(numbers=st.lists(st.integers(0, 300), max_size=300), most=st.integers(1, 4))
def test_forgetting_never_makes_an_old_number_new(numbers: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "MOST_STRETCHES", most)
        seen, naive = SequenceWindow(), Naive(SIZE)
        for number in numbers:
            said, known = seen.see(number, 0, SIZE), naive.see(number, 0)
            # What was forgotten is late instead of seen before: never new.
            assert said is known or (said is SequenceVerdict.LATE and known is SequenceVerdict.BEFORE)
    assert len(seen.edges) <= 2 * (most + SIZE)


def test_a_late_number_that_is_taken_all_the_same_is_known_again() -> None:
    seen = SequenceWindow()
    seen.see(1000, 0, SIZE)
    assert seen.see(3, 0, SIZE) is SequenceVerdict.LATE
    seen.add(3, SIZE)
    assert seen.see(3, 0, SIZE) is SequenceVerdict.BEFORE
