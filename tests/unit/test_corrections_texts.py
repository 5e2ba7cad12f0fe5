"""Dates, numbers, slips and bodies: what corrections read in texts, and what they leave as it was."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.corrections.formats import DateLayout, amounts, folded, is_plain, nearest, readings, slips_between
from towpath.desk.corrections.model import flattened, is_nothing, token, value_of, with_values

DAYS = st.dates(date(1950, 1, 1), date(2090, 12, 31))
LAYOUTS = st.sampled_from(
    [
        DateLayout("ymd", "-", 4, "number", ""),
        DateLayout("dmy", ".", 4, "number", ""),
        DateLayout("mdy", "/", 4, "number", ""),
    ]
)
WORDS = st.text("abcdefgh", min_size=1, max_size=10)
NAMES = st.text("abcxyz_", min_size=1, max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20)


@given(DAYS, LAYOUTS, st.booleans())
def test_a_day_is_among_the_readings_of_what_was_written(day: date, layout: DateLayout, is_padded: bool) -> None:
    """Without this a date that is right would be taken for a bad one."""
    text = layout.write(day, is_padded=is_padded)
    assert (day, layout.order) in {(each.day, each.layout.order) for each in readings(text)}


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("03/04/2026", {date(2026, 4, 3), date(2026, 3, 4)}),
        ("25/12/2026", {date(2026, 12, 25)}),
        ("2026-02-30", set()),
        ("20260304", {date(2026, 3, 4)}),
        ("3 Apr 2026", {date(2026, 4, 3)}),
        ("2026-04-03T10:00:00Z", {date(2026, 4, 3)}),
        ("03/04/2026x", set()),
        ("١٢/٠٣/٢٠٢٦", set()),
        ("1" * 500, set()),
    ],
)
def test_all_days_that_a_text_may_mean(text: str, days: set[date]) -> None:
    assert {each.day for each in readings(text)} == days


def test_a_layout_is_known_again_by_its_text() -> None:
    [found] = [each.layout for each in readings("2026-04-03T10:00:00Z")]
    assert DateLayout.of_text(found.text) == found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1.234,56", {"1234.56"}),
        ("1,234.56", {"1234.56"}),
        ("1 234,5", {"1234.5"}),
        ("12,50", {"12.50"}),
        ("1,234", {"1.234", "1234"}),
        ("-3", {"-3"}),
        ("€ 12,50", {"12.50"}),
        ("12.50 EUR", {"12.50"}),
        ("1,23,456", set()),
        ("1.2.3", set()),
        ("twelve", set()),
        ("", set()),
    ],
)
def test_all_numbers_that_a_text_may_mean(text: str, values: set[str]) -> None:
    assert {str(each.value) for each in amounts(text)} == values


@given(st.decimals(0, 10**9, places=2))
def test_a_plain_number_is_among_its_readings(number: Decimal) -> None:
    assert is_plain(str(number))
    assert number in {each.value for each in amounts(str(number))}


@given(WORDS, WORDS)
def test_slips_are_as_many_one_way_as_the_other(one: str, other: str) -> None:
    assert slips_between(one, other, 20) == slips_between(other, one, 20)
    assert (slips_between(one, other, 20) == 0) == (one == other)


@given(WORDS, WORDS, st.integers(0, 4))
def test_slips_are_cut_off_where_nobody_believes_them(one: str, other: str, most: int) -> None:
    assert slips_between(one, other, most) == min(slips_between(one, other, 20), most + 1)


@pytest.mark.parametrize(
    ("one", "other", "slips"), [("brelin", "berlin", 1), ("berln", "berlin", 1), ("abc", "cba", 2)]
)
def test_neighbours_that_are_swapped_are_one_slip(one: str, other: str, slips: int) -> None:
    assert slips_between(one, other, 9) == slips


def test_case_accents_and_spaces_are_no_slips() -> None:
    assert folded("  MÜNCHEN ") == folded("munchen")
    assert nearest("MUNCHEN", ["München"])[0].slips == 0


def test_another_digit_is_another_value() -> None:
    assert nearest("A-101", ["A-100", "A-110", "A-1O1"]) == []


@given(st.dictionaries(NAMES, SCALARS, max_size=6), NAMES, SCALARS)
def test_only_the_value_that_is_put_changes(document: dict[str, object], name: str, value: object) -> None:
    """Numbers, order and spelling of all else are the sender's."""
    body = json.dumps(document, indent=1).encode()
    changed = with_values(body, {name: value})  # type: ignore[dict-item]
    assert json.loads(changed) == {**document, name: value}
    if not document or name in document:
        return
    assert changed.startswith(body.rstrip()[:-1].rstrip())


def test_a_value_in_an_object_in_an_object() -> None:
    body = b'{"n": 1.00, "at": {"zip" : "1",  "city":null}, "x":[1,  2]}'
    assert with_values(body, {"at.city": "Ulm"}) == b'{"n": 1.00, "at": {"zip" : "1",  "city":"Ulm"}, "x":[1,  2]}'
    assert json.loads(with_values(b"{}", {"at.city": "Ulm"})) == {"at": {"city": "Ulm"}}
    assert json.loads(with_values(b'{"at":7}', {"at.city": "Ulm"})) == {"at": {"city": "Ulm"}}


@given(SCALARS)
def test_a_token_is_its_value(value: object) -> None:
    found = token(value)  # type: ignore[arg-type]
    assert found is None or value_of(found) == value


def test_fields_by_path_without_lists_and_names_that_are_no_paths() -> None:
    document = {"a": 1, "b": {"c": "x", "d": {"e": {"f": 1}}}, "l": [1], "no.path": 1, "no,path": 1, "": 1, "\x00": 1}
    assert flattened(document) == {"a": 1, "b.c": "x"}


@pytest.mark.parametrize("value", [None, "", "  ", "N/A", "null", "-", "Unknown"])
def test_words_for_nothing(value: str | None) -> None:
    assert is_nothing(value)


@pytest.mark.parametrize("value", [0, False, "0", "no"])
def test_what_says_something(value: object) -> None:
    assert not is_nothing(value)  # type: ignore[arg-type]
