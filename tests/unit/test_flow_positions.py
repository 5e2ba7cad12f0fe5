"""Positions: in stable order, one range a partition, each batch begins where the one before it ended."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadValue
from towpath.flow.delivery.positions import OffsetRange, PositionBreak, Positions

CLICKS = [OffsetRange("clicks", "id-c", 0, 0, 17), OffsetRange("clicks", "id-c", 1, 4, 4)]
VIEWS = [OffsetRange("views", "id-v", 0, 3, 9)]


@st.composite
def positions(draw: st.DrawFn) -> Positions:
    spots = draw(st.sets(st.tuples(st.sampled_from(["a", "b", "ü"]), st.integers(0, 12)), max_size=8))
    ranges = []
    for topic, number in spots:
        start, length = draw(st.integers(0, 1 << 43)), draw(st.integers(0, 1 << 20))
        ranges.append(OffsetRange(topic, f"id-{topic}", number, start, start + length))
    return Positions.of(ranges)


@given(positions())
def test_json_round_trip(found: Positions) -> None:
    assert Positions.from_json(found.to_json()) == found


@given(positions(), st.randoms())
def test_the_order_in_which_ranges_come_does_not_matter(found: Positions, shuffling: random.Random) -> None:
    shuffled = list(found)
    shuffling.shuffle(shuffled)
    assert Positions.of(shuffled).to_json() == found.to_json()


def test_json_as_people_read_it() -> None:
    value = json.loads(Positions.of(VIEWS + CLICKS).to_json())
    assert value == [
        {"topic": "clicks", "id": "id-c", "ranges": {"0": [0, 17], "1": [4, 4]}},
        {"topic": "views", "id": "id-v", "ranges": {"0": [3, 9]}},
    ]
    assert list(value[0]["ranges"]) == ["0", "1"]


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    found = Positions.of(OffsetRange("t", "i", number, 0, 1) for number in (10, 9, 2, 11))
    assert [each.partition for each in found] == [2, 9, 10, 11]


@pytest.mark.parametrize(
    "wrong",
    [
        OffsetRange("t", "i", 0, 5, 4),
        OffsetRange("t", "i", 0, -1, 4),
        OffsetRange("t", "i", -1, 0, 4),
        OffsetRange("t", "", 0, 0, 4),
    ],
)
def test_what_is_no_range_is_refused(wrong: OffsetRange) -> None:
    with pytest.raises(BadValue):
        Positions.of([wrong])


def test_a_partition_named_twice_is_refused() -> None:
    with pytest.raises(BadValue, match="twice"):
        Positions.of([*CLICKS, OffsetRange("clicks", "id-c", 1, 4, 5)])


def test_a_topic_made_again_is_another_topic() -> None:
    both = Positions.of([OffsetRange("t", "old", 0, 0, 9), OffsetRange("t", "new", 0, 0, 2)])
    assert both.starts == {("new", 0): 0, ("old", 0): 0}
    assert both.stops == {("new", 0): 2, ("old", 0): 9}
    assert Positions.from_json(both.to_json()) == both


def test_empty() -> None:
    assert Positions().is_empty
    assert Positions.of([OffsetRange("t", "i", 0, 7, 7)]).is_empty
    assert not Positions.of(CLICKS).is_empty


def test_one_batch_follows_another() -> None:
    before = Positions.of(CLICKS)
    new = OffsetRange("clicks", "id-c", 2, 0, 1)
    after = Positions.of([CLICKS[0]._replace(start=17, stop=20), CLICKS[1]._replace(stop=6), new])
    assert after.breaks_after(before) == []
    joined = before.joined(after)
    assert joined.starts == {("id-c", 0): 0, ("id-c", 1): 4, ("id-c", 2): 0}
    assert joined.stops == after.stops


@pytest.mark.parametrize(("start", "what"), [(18, "18"), (16, "16")])
def test_a_gap_and_an_overlap_are_breaks(start: int, what: str) -> None:
    before, after = Positions.of(CLICKS[:1]), Positions.of([CLICKS[0]._replace(start=start, stop=20)])
    [found] = after.breaks_after(before)
    assert found == PositionBreak("clicks", "id-c", 0, 17, start)
    assert what in str(found)
    with pytest.raises(BadValue):
        before.joined(after)


def test_a_partition_that_is_missing_is_a_break() -> None:
    after = Positions.of([CLICKS[0]._replace(start=17)])
    [found] = after.breaks_after(Positions.of(CLICKS))
    assert found == PositionBreak("clicks", "id-c", 1, 4, None)
    assert str(found).startswith("clicks/1 ")
    assert "None" not in str(found)


@pytest.mark.parametrize(
    ("kept", "lost"),
    [(0, None), (3, None), (5, (3, 5)), (9, (3, 9)), (50, (3, 9)), (None, (3, 9))],
)
def test_what_was_deleted_before_it_was_read(kept: int | None, lost: tuple[int, int] | None) -> None:
    found = Positions.of(VIEWS).lost({} if kept is None else {("id-v", 0): kept})
    assert [(each.start, each.stop) for each in found] == ([] if lost is None else [lost])


def test_they_are_stored_without_spaces() -> None:
    """There is one such text for every batch that was ever run."""
    positions = Positions.of([OffsetRange("clicks", "id", 1, 4, 9), OffsetRange("clicks", "id", 0, 0, 17)])
    assert positions.to_json() == '[{"topic":"clicks","id":"id","ranges":{"0":[0,17],"1":[4,9]}}]'
    assert len(positions) == 2
