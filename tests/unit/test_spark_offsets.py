"""How far the next batch of a stream goes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from towpath.log.spark.sqlite import SourceOffset, Spots, advance

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_without_a_limit_everything_is_read() -> None:
    assert advance({A: 3, B: 4}, {A: 0, B: 0}, {A: 10, B: 4}, None) == {A: 10, B: 4}


def test_limit_is_shared_and_what_the_small_do_not_need_goes_to_the_large() -> None:
    assert advance({A: 0, B: 0, C: 0}, {A: 0, B: 0, C: 0}, {A: 2, B: 100, C: 100}, 20) == {A: 2, B: 9, C: 9}


def test_limit_below_the_number_of_partitions_serves_the_longest() -> None:
    assert advance({A: 0, B: 0}, {A: 0, B: 0}, {A: 5, B: 9}, 1) == {A: 0, B: 1}


def test_new_partition_is_read_from_its_beginning() -> None:
    assert advance({A: 5}, {A: 0, B: 2}, {A: 5, B: 4}, None) == {A: 5, B: 4}


def test_deleted_offsets_are_passed_over_and_do_not_use_up_the_limit() -> None:
    assert advance({A: 0}, {A: 1000}, {A: 1005}, 3) == {A: 1003}
    assert advance({A: 0}, {A: 1000}, {A: 1000}, 3) == {A: 1000}


def test_deletion_beyond_the_end_that_was_agreed_upon_does_not_move_it() -> None:
    """With `availableNow` the end is that of its beginning, and records after it may be deleted too."""
    assert advance({A: 0}, {A: 9}, {A: 4}, None) == {A: 4}


def test_end_that_went_backwards_stops_nobody() -> None:
    assert advance({A: 9}, {A: 0}, {A: 4}, 10) == {A: 9}


spots = st.dictionaries(
    st.sampled_from([A, B, C, ("u", 1), ("v", 7)]), st.tuples(*[st.integers(0, 50)] * 3), min_size=1
)


@given(spots, st.one_of(st.none(), st.integers(1, 60)))
def test_goes_forward_keeps_the_limit_and_comes_to_the_end(
    partitions: dict[tuple[str, int], tuple[int, int, int]], limit: int | None
) -> None:
    """From any state, as many batches as it takes, nothing new coming in."""
    at: Spots = {spot: start for spot, (start, _, _) in partitions.items()}
    kept = {spot: kept for spot, (_, kept, _) in partitions.items()}
    ends = {spot: kept + more for spot, (_, kept, more) in partitions.items()}
    for _ in range(1000):
        reached = advance(at, kept, ends, limit)
        read = sum(max(0, reached[spot] - max(at[spot], kept[spot])) for spot in at)
        assert all(reached[spot] >= at[spot] for spot in at)
        assert limit is None or read <= limit
        if reached == at:
            break
        at = reached
    assert all(at[spot] >= ends[spot] for spot in at)


def test_text_is_the_same_for_the_same_offsets() -> None:
    """Spark takes another text for new data, and would make empty batches without end."""
    one = SourceOffset({"u": "2", "t": "1"}, {("u", 10): 1, ("u", 9): 2, A: 3})
    two = SourceOffset({"t": "1", "u": "2"}, {A: 3, ("u", 9): 2, ("u", 10): 1})
    text = json.dumps(one.to_json())
    assert text == json.dumps(two.to_json())
    assert text == '{"t": {"id": "1", "offsets": {"0": 3}}, "u": {"id": "2", "offsets": {"9": 2, "10": 1}}}'
    assert SourceOffset.from_json(json.loads(text)) == one
