"""Cursors: what was given out is understood again, anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadCursor
from towpath.gateway.outlet.page import START, Cursor

UPLOAD = "5b0e7a3e-0000-4000-8000-000000000001"
NUMBERS = st.integers(0, 10**17)
CURSORS = st.builds(
    Cursor, NUMBERS, NUMBERS, NUMBERS, st.text("0123456789abcdef", min_size=16, max_size=16), NUMBERS, NUMBERS
)


@given(CURSORS | st.just(START))
def test_a_cursor_comes_back_as_it_was(cursor: Cursor) -> None:
    assert Cursor.from_text(cursor.to_text(UPLOAD, "stops"), UPLOAD, "stops") == cursor


@given(CURSORS, st.data())
def test_a_changed_character_is_noticed(cursor: Cursor, data: st.DataObject) -> None:
    text = cursor.to_text(UPLOAD, "stops")
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda each: each != text[at]))
    with pytest.raises(BadCursor):
        Cursor.from_text(text[:at] + other + text[at + 1 :], UPLOAD, "stops")


@given(CURSORS, st.integers(0, 60))
def test_one_that_was_cut_off_is_noticed(cursor: Cursor, kept: int) -> None:
    text = cursor.to_text(UPLOAD, "stops")
    with pytest.raises(BadCursor):
        Cursor.from_text(text[: min(kept, len(text) - 1)], UPLOAD, "stops")


@given(st.text())
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        Cursor.from_text(text, UPLOAD, "stops")


@pytest.mark.parametrize(("upload", "query"), [("another", "stops"), (UPLOAD, "fares")])
def test_one_of_another_result_is_refused(upload: str, query: str) -> None:
    with pytest.raises(BadCursor, match="another"):
        Cursor.from_text(Cursor(0, 1, 2, "0" * 16, 3, 4).to_text(upload, query), UPLOAD, "stops")


def test_a_beginning_that_is_somewhere_else_is_refused() -> None:
    with pytest.raises(BadCursor, match="file"):
        Cursor.from_text(Cursor(row=7).to_text(UPLOAD, "stops"), UPLOAD, "stops")
