"""A join by position, held against somebody who has all records of all inputs before him."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from towpath.flow.stateful.slots import Entry, Slots

ARRIVALS = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60)


def entry(input: int, number: int, *, is_good: bool = True) -> Entry:
    return Entry(f"t{input}", 0, number, b"%d/%d" % (input, number) if is_good else None)


@given(ARRIVALS)
def test_the_kth_of_each_come_together(arrivals: list[tuple[int, bool]]) -> None:
    """Those that failed keep their places, and are filled in at the end, from the last to the first."""
    slots, sent, full = Slots.of(3), [0, 0, 0], []
    failed: list[tuple[int, int]] = []
    for input, is_good in arrivals:
        number = sent[input]
        sent[input] += 1
        if not is_good:
            failed.append((input, number))
        if (slot := slots.add(input, entry(input, number, is_good=is_good))) is not None:
            full.append(slot)
        slots = Slots.of(3, slots.to_value())  # as it is between two batches
    bad = {number for _, number in failed}
    assert [slot[0].offset for slot in full] == [number for number in range(min(sent)) if number not in bad]
    for input, number in reversed(failed):
        assert slots.is_missing((f"t{input}", 0, number))
        if (slot := slots.fill(entry(input, number))) is not None:
            full.append(slot)
    expected = [[entry(input, number) for input in range(3)] for number in range(min(sent))]
    assert sorted(full, key=lambda slot: slot[0].offset) == expected, "each once, and none is missing"
    waiting = [one for queue in slots.queues for one in queue]
    assert len(waiting) == sum(sent) - 3 * min(sent)
    assert slots.open == []
    assert slots.is_empty is (not waiting)


def test_what_never_failed_is_not_filled() -> None:
    slots = Slots.of(2)
    slots.add(0, entry(0, 0))
    assert not slots.is_missing(("t0", 0, 0))
    assert not slots.is_missing(("t0", 0, 1))
