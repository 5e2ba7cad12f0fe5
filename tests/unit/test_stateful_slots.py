"""A join by position, held against somebody who has all records of all inputs before him."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from towpath.flow.stateful.join import SlotEntry, Slots, waiting_since

ARRIVALS = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60)


def entry(input: int, number: int, *, is_good: bool = True) -> SlotEntry:
    return SlotEntry(f"t{input}", 0, number, b"%d/%d" % (input, number) if is_good else None)


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
        kept = slots.find((f"t{input}", 0, number))
        assert kept is not None
        assert kept.value is None
        if (slot := slots.fill(entry(input, number))) is not None:
            full.append(slot)
    expected = [[entry(input, number) for input in range(3)] for number in range(min(sent))]
    assert sorted(full, key=lambda slot: slot[0].offset) == expected, "each once, and none is missing"
    waiting = [one for queue in slots.queues for one in queue]
    assert len(waiting) == sum(sent) - 3 * min(sent)
    assert slots.open == []
    assert slots.is_empty is (not waiting)


def test_what_waits_is_found() -> None:
    slots = Slots.of(2)
    slots.add(0, entry(0, 0))
    assert slots.find(("t0", 0, 0)) == entry(0, 0)
    assert slots.find(("t0", 0, 1)) is None


def test_a_slot_leaves_as_a_whole_when_its_first_has_waited_long_enough() -> None:
    slots = Slots.of(3)
    for input, number, since_ms in ((0, 0, 10), (1, 0, 20), (0, 1, 15), (0, 2, 40)):
        slots.add(input, entry(input, number)._replace(since_ms=since_ms))
    assert waiting_since(slots.to_value(), 2) == [10, 15]
    assert slots.leave(9) is None
    left = [slots.leave(30) or [] for _ in range(3)]
    offsets = [[None if one is None else one.offset for one in slot] for slot in left]
    assert offsets == [[0, 0, None], [1, None, None], []]
    assert waiting_since(slots.to_value(), 2) == [40]


def test_places_of_what_failed_leave_without_a_word() -> None:
    slots = Slots.of(2)
    slots.add(0, entry(0, 0, is_good=False)._replace(since_ms=1))
    slots.add(0, entry(0, 1)._replace(since_ms=2))
    slots.add(1, entry(1, 0)._replace(since_ms=3))  # its partner has failed: their slot is open
    assert waiting_since(slots.to_value(), 9) == [1, 2]
    assert slots.leave(1) == [None, entry(1, 0)._replace(since_ms=3)]
    slots.add(0, entry(0, 2, is_good=False)._replace(since_ms=4))
    assert slots.leave(2) == [entry(0, 1)._replace(since_ms=2), None]
    assert slots.leave(9) is None
    assert slots.is_empty
