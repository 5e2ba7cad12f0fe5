"""Parts of the desk's pages that only turn values into others: bodies, comparisons, filters, rules, small charts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.cases.model import LIVE, CaseSelection, CaseState
from towpath.errors import BadPolicy, BadValue
from towpath.policy import Rule, correct, exponential, ignore, isolate, repeat, repeat_after, salvage
from towpath.web.auth import FormData
from towpath.web.console.desk.cases import ON_THE_DESK, CaseFilter
from towpath.web.console.desk.policies import rule_of
from towpath.web.console.layout.filters import (
    AROUND,
    CHANGED,
    HEX_BYTES,
    LEFT_OUT,
    SAME,
    SHOWN_BYTES,
    body_view,
    key_text,
    laid_out_json,
    side_by_side,
    sparkline,
    visible,
)

# Bodies


def test_json_is_laid_out_with_every_number_as_it_is() -> None:
    view = body_view('{"a":1.10000000000000000001,"b":[1e400,-0,12345678901234567890123],"c":"ü"}'.encode())
    assert view.kind == "JSON"
    assert '"a": 1.10000000000000000001' in view.text
    assert "1e400,\n    -0,\n    12345678901234567890123" in view.text
    assert '"ü"' in view.text
    assert view.raw is not None
    assert view.raw.startswith('{"a":1.1')


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"id":2}',  # a reader of JSON would show one of them
        '{"a":{"b":1,"b":1}}',
        '{"a":"\\ud800"}',  # cannot be written
        '{"a":NaN}',
        "[" * 100_000,
        "{",
        "plain text",
    ],
)
def test_what_is_not_what_it_seems_is_shown_as_it_came(text: str) -> None:
    view = body_view(text.encode())
    assert (view.kind, view.raw) == ("text", None)
    assert text.startswith(view.text[:1000])
    assert laid_out_json(text) is None


def test_bytes_are_hexadecimal_and_long_ones_are_cut() -> None:
    view = body_view(b"\xff\x00<script>")
    assert (view.kind, view.is_cut, view.size) == ("bytes", False, 10)
    assert view.text.startswith("00000000  ff 00 3c 73")
    assert body_view(b"\xff" * (HEX_BYTES + 1)).is_cut
    assert body_view(b"\xff" * HEX_BYTES).text.count("\n") == HEX_BYTES // 16 - 1


def test_a_long_text_is_cut_between_characters() -> None:
    view = body_view(("x" + "ü" * SHOWN_BYTES).encode())
    assert (view.kind, view.is_cut) == ("text", True)
    assert view.text == "x" + "ü" * ((SHOWN_BYTES - 1) // 2)
    assert body_view(b'"' + b"x" * (SHOWN_BYTES - 2) + b'"').kind == "JSON"
    assert body_view(b"\xc3").kind == "bytes"


def test_what_nobody_would_see_is_named() -> None:
    assert visible("a\u202eb\x07\x00c\td\n\u200b") == "a⟨U+202E⟩b⟨U+0007⟩⟨U+0000⟩c\td\n⟨U+200B⟩"
    assert visible("Grüße, 你好 👋") == "Grüße, 你好 👋"


@given(st.text())
def test_whatever_is_shown_can_be_sent(text: str) -> None:
    visible(text).encode()


def test_keys() -> None:
    assert (key_text(None), key_text(b"k1"), key_text(b"\xff\x01")) == ("none", "k1", "ff 01")


# Comparing


def test_side_by_side_shows_what_differs_and_a_little_around_it() -> None:
    before = [f"line {n}" for n in range(50)]
    after = [*before[:20], "new", *before[21:], "end"]
    rows = side_by_side("\n".join(before), "\n".join(after))
    changed = [(row.left_number, row.left, row.right_number, row.right) for row in rows if row.kind == CHANGED]
    assert changed == [(21, "line 20", 21, "new"), (None, None, 51, "end")]
    assert sum(int(row.left or 0) for row in rows if row.kind == LEFT_OUT) == 50 - 1 - 3 * AROUND
    assert rows[0] == (LEFT_OUT, None, str(20 - AROUND), None, None)
    same = [row for row in rows if row.kind == SAME]
    assert len(same) == 3 * AROUND
    assert all(row.left == row.right == f"line {(row.left_number or 0) - 1}" for row in same)


def test_texts_that_are_the_same_have_no_rows() -> None:
    assert side_by_side("a\nb", "a\nb") == []
    assert side_by_side("", "") == []


@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
def test_both_texts_can_be_read_off_the_rows(before: list[str], after: list[str]) -> None:
    rows = side_by_side("\n".join(before), "\n".join(after))
    if before == after:
        assert rows == []
        return
    for side, lines in ((1, before), (3, after)):
        shown = {row[side]: row[side + 1] for row in rows if row.kind != LEFT_OUT and row[side] is not None}
        assert all(lines[int(number or 0) - 1] == text for number, text in shown.items())
        left_out = sum(int(row.left or 0) for row in rows if row.kind == LEFT_OUT)
        assert len(shown) + left_out == len(lines)


# Filters


def test_a_filter_is_what_an_address_says() -> None:
    chosen = CaseFilter.of(
        [("flow", " shop "), ("state", "open"), ("state", "waiting"), ("code", "9"), ("x", "y"), ("step", "")]
    )
    assert chosen.selection == CaseSelection(flow="shop", code=9, states=(CaseState.OPEN, CaseState.WAITING))
    assert chosen.query == "flow=shop&state=open&state=waiting&code=9"
    assert chosen.within(state="ignored").selection.states == (CaseState.IGNORED,)
    assert chosen.without("flow", "state").query == "code=9"
    assert not CaseFilter.of([("before", "7")])
    assert CaseFilter().selection == CaseSelection()


def test_times_without_a_zone_are_utc() -> None:
    chosen = CaseFilter.of([("since", "2026-01-31T18:00"), ("until", "2026-01-31T18:00+02:00")])
    assert chosen.selection.since == datetime(2026, 1, 31, 18, tzinfo=UTC)
    assert chosen.selection.until == datetime(2026, 1, 31, 16, tzinfo=UTC)
    assert chosen.is_slow
    assert not CaseFilter.of([("flow", "shop")]).is_slow


def test_on_the_desk_stands_for_all_that_is_not_settled() -> None:
    assert set(CaseFilter.of([("state", ON_THE_DESK)]).selection.states or ()) == LIVE


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", "lost"), ("code", "x"), ("code", "-1"), ("group", "1.5"), ("since", "yesterday"), ("flow", "x" * 301)],
)
def test_what_no_case_can_have(name: str, value: str) -> None:
    with pytest.raises(BadValue, match=name):
        _ = CaseFilter.of([(name, value)]).selection


# Rules


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"policy": "isolate", "code": "9"}, Rule.of(isolate, code=9)),
        ({"policy": "repeat", "times": "3", "step": "price"}, Rule.of(repeat(3), step="price")),
        (
            {"policy": "ignore", "approved_by": "Ann", "until": "2030-01-31", "where": "code = 9"},
            Rule.of(ignore(approved_by="Ann", until="2030-01-31"), where="code = 9"),
        ),
        (
            {"policy": "repeat_after", "delays": "exponential", "delay": "1m", "repeats": "4", "maximum": "1h"},
            Rule.of(repeat_after(exponential("1m", factor=2, times=4, maximum="1h"))),
        ),
        ({"policy": "salvage", "fields": "phone, fax", "then": "isolate"}, Rule.of(salvage("phone", "fax"))),
        (
            {"policy": "correct", "then": "ignore", "approved_by": "Ann", "until": "2030-01-31"},
            Rule.of(correct(then=ignore(approved_by="Ann", until="2030-01-31"))),
        ),
    ],
)
def test_a_rule_from_a_form(fields: dict[str, str], rule: Rule) -> None:
    assert rule_of(FormData(list(fields.items()))) == rule


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": ""},
        {"policy": "pray"},
        {"policy": "repeat"},
        {"policy": "ignore", "approved_by": "", "until": "2030-01-31"},
        {"policy": "ignore", "approved_by": "Ann", "until": "soon"},
        {"policy": "repeat_after", "delays": "constant", "delay": "5 lightyears", "repeats": "3"},
        {"policy": "repeat_after", "delays": "delays", "list": ""},
        {"policy": "salvage", "fields": " , "},
        {"policy": "isolate", "where": "value ="},
    ],
)
def test_what_is_no_rule(fields: dict[str, Any]) -> None:
    with pytest.raises(BadPolicy):
        rule_of(FormData(list(fields.items())))


# Small charts


def test_a_sparkline_says_in_words_what_it_shows() -> None:
    shown = sparkline([0] * 22 + [1200, 3])
    assert "1,203 " in shown
    assert shown.count("<rect") == 24
    assert shown.count('class="bar"') == 2
    assert 'height="20"' in shown
