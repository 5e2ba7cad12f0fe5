"""What the header `towpath.delivered` says, and what of it is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.flow.delivery.ids import DeliveryIds, InputCoordinates
from towpath.flow.records.errors import DeliveredOutputs, ordinals_of

names = st.text(max_size=8)
ordinals = st.frozensets(st.integers(0, 3_000), min_size=1, max_size=40)


@given(st.frozensets(names, max_size=4), st.dictionaries(names, ordinals, max_size=3))
def test_it_is_read_as_it_was_written(whole: frozenset[str], partly: dict[str, frozenset[int]]) -> None:
    said = DeliveredOutputs(whole, partly)
    assert DeliveredOutputs.of_json(said.to_json()) == said
    assert bool(said) == bool(whole or partly)


def test_a_reader_finds_names_and_runs_of_ordinals() -> None:
    said = DeliveredOutputs(frozenset({"views"}), {"lines": frozenset({0, 2, 3, 4, 9})})
    assert said.to_json() == '["views", ["lines", "0,2-4,9"]]'
    assert [said.has("lines", at) for at in range(4)] == [True, False, True, True]
    assert said.has("views", 7)
    assert not said.has("others", 0)
    assert [said.concerns(name) for name in ("views", "lines", "others")] == [True, True, False]


def test_what_came_before_is_added_to() -> None:
    before = DeliveredOutputs(frozenset({"a"}), {"b": frozenset({0})})
    after = before.joined(DeliveredOutputs(frozenset({"c"}), {"b": frozenset({2}), "d": frozenset({1})}))
    assert after == DeliveredOutputs(frozenset({"a", "c"}), {"b": frozenset({0, 2}), "d": frozenset({1})})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "3",
        "[3]",
        "[null]",
        '[["a"]]',
        '[["a", 1]]',
        '[["a", "2-1"]]',
        '[["a", "0-99999999"]]',
        '[["a", "x"]]',
        pytest.param("[" * 100_000, id="deep"),
        pytest.param(f'[["a", "{",".join(f"{n * 90_000}-{n * 90_000 + 80_000}" for n in range(9))}"]]', id="much"),
    ],
)
def test_what_nobody_of_us_has_written_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        DeliveredOutputs.of_json(text)


def test_an_output_that_has_none_is_not_named() -> None:
    said = DeliveredOutputs(frozenset({"views"}), {"lines": frozenset()})
    assert said.to_json() == '["views"]'
    assert not DeliveredOutputs(frozenset(), {"lines": frozenset()})


def test_as_many_ordinals_as_are_ever_tried() -> None:
    assert len(DeliveredOutputs.of_json('[["a", "1-99999,100001"]]').partly["a"]) == 100_000
    with pytest.raises(ValueError, match="100000"):
        DeliveredOutputs.of_json('[["a", "0-100000"]]')
    with pytest.raises(ValueError, match="100000"):
        DeliveredOutputs.of_json('[["a", "1-99999,100001-100002"]]')


def test_an_ordinal_has_32_bits() -> None:
    assert DeliveredOutputs.of_json('[["a", "4294967295"]]').has("a", 4294967295)
    for text in ("4294967296", "4294967295-4294967296"):
        with pytest.raises(ValueError, match="run"):
            DeliveredOutputs.of_json(f'[["a", "{text}"]]')


def test_ordinals_are_found_by_ids() -> None:
    ids, input = DeliveryIds("f", "s", "o"), InputCoordinates("t", 3, 99)
    some = [ids.of(*input, at) for at in (7, 0, 2)]
    assert ordinals_of(some, ids, input) == {0, 2, 7}
    assert ordinals_of([], ids, input) == frozenset()
