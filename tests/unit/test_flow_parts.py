"""Parts of a unit: where they are cut depends on the deliveries, not on how they are handed over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.flow.delivery.marks import PartManifest
from towpath.flow.delivery.splitter import PartLimits, TransactionSplitter
from towpath.flow.topics import LONGEST_NAME, FlowTopics, group_of, producer_of
from towpath.log.topic import check_group

SIZES = st.lists(st.integers(0, 40), max_size=60)
LIMITS = st.builds(PartLimits, st.integers(1, 7), st.integers(1, 60))


def cut(parts: TransactionSplitter, sizes: Sequence[int], pieces: Sequence[int]) -> tuple[list[int], list[int]]:
    """How many deliveries each part was given, and which deliveries were to be written."""
    counts: dict[int, int] = {}
    written: list[int] = []
    start = 0
    for length in (*pieces, len(sizes)):
        piece = sizes[start : start + length]
        for step in parts.steps(piece):
            counts[step.part] = counts.get(step.part, 0) + step.stop - step.start
            written += [] if step.is_there else range(start + step.start, start + step.stop)
        start += len(piece)
    return list(counts.values()), written


@given(SIZES, LIMITS, st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_cut_alike_however_handed_over(sizes: list[int], limits: PartLimits, one: list[int], other: list[int]) -> None:
    first, second = (cut(TransactionSplitter({}, limits), sizes, pieces) for pieces in (one, other))
    assert first == second
    assert sum(first[0]) == len(sizes)
    start = 0
    for count in first[0]:
        assert count <= limits.deliveries
        assert count == 1 or sum(sizes[start : start + count]) <= limits.bytes
        start += count


@given(SIZES, LIMITS, LIMITS, st.lists(st.integers(0, 9)), st.integers(0, 9))
def test_goes_on_after_the_parts_that_are_there(
    sizes: list[int], before: PartLimits, now: PartLimits, pieces: list[int], there: int
) -> None:
    """Also when parts were cut by another rule then."""
    counts = cut(TransactionSplitter({}, before), sizes, ())[0][:there]
    found = {part: PartManifest(count) for part, count in enumerate(counts)}
    again, written = cut(TransactionSplitter(found, now), sizes, pieces)
    assert again[: len(counts)] == counts
    assert written == list(range(sum(counts), len(sizes)))


@pytest.mark.parametrize(
    ("found", "sizes", "limits", "last"),
    [
        ({}, [], None, 0),
        ({}, [1], None, 0),
        ({0: PartManifest(0)}, [], None, None),
        ({0: PartManifest(2)}, [1, 1], None, None),
        ({0: PartManifest(2)}, [1, 1], PartLimits(), None),
        ({0: PartManifest(2)}, [1, 1, 1], PartLimits(), 1),
    ],
)
def test_a_unit_has_a_part_even_without_deliveries(
    found: dict[int, PartManifest], sizes: list[int], limits: PartLimits | None, last: int | None
) -> None:
    parts = TransactionSplitter(found, limits)
    cut(parts, sizes, ())
    assert parts.last == last


def test_without_limits_a_unit_is_one_part() -> None:
    assert cut(TransactionSplitter({}, None), [1 << 20] * 20_000, [7, 9_000])[0] == [20_000]


def test_names_of_producers() -> None:
    assert producer_of("flow", "stage", "out", "shop.orders/3") == "flow.stage.out.shop.orders/3"
    assert producer_of("flow", "stage") == "flow.stage"
    names = [
        producer_of("a", "b.c", "d", "e"),
        producer_of("a.b", "c", "d", "e"),
        producer_of("a", "b", "c", "ä/0"),
        producer_of("a", "b", "c", "ö/0"),
        producer_of("a", "b", "c", "x" * 300),
        producer_of("a", "b", "c", "x" * 301),
    ]
    assert len(set(names)) == len(names)
    for name in names:
        check_group(name)
    assert len(group_of("f" * 200, "s" * 200)) == LONGEST_NAME
    assert FlowTopics.of("flow").marks == "flow.marks"
