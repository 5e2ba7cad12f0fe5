"""Differences between bodies, and single fields that are changed: nothing else of the text is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.edit_body import MOST_CHANGES, BodyDifference, diff, with_fields
from towpath.errors import BadEdit


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "1", "2")]),
        ({"a": 1}, {"b": 1}, [("a", "1", None), ("b", None, "1")]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3, 4]}}, [("a.b[1]", "2", "3"), ("a.b[2]", None, "4")]),
        ({"a": None}, {}, [("a", "null", None)]),
        ({"a": 1}, {"a": {"b": 1}}, [("a", "1", '{"b":1}')]),
        ({"a": 1}, {"a": True}, [("a", "1", "true")]),
    ],
)
def test_by_field(before: object, after: object, changes: list[tuple[str, str | None, str | None]]) -> None:
    found = diff(json.dumps(before).encode(), json.dumps(after).encode())
    assert found == [BodyDifference(*each) for each in changes]


def test_by_line_where_one_is_not_json() -> None:
    assert diff(b"one\ntwo\n\xff", b"one\n2\n") == [BodyDifference("line 2", "two\n\ufffd", "2")]
    assert diff(b"", b"x") == [BodyDifference("line 1", None, "x")]


def test_a_large_difference_is_cut() -> None:
    before = json.dumps({str(n): n for n in range(1000)}).encode()
    assert len(diff(before, b"{}")) == MOST_CHANGES


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_no_difference_means_equal(document: dict[str, object]) -> None:
    text = json.dumps(document).encode()
    if all(-(2**63) <= each < 2**64 for each in document.values() if isinstance(each, int)):
        assert diff(text, text) == []


def test_fields_are_set_and_made() -> None:
    body = b'{"id":12345678901234567890123,"price":1.10,"lines":[{"n":1}]}'
    changed = with_fields(body, [("city", '"Bonn"'), ("lines.0.n", "2"), ("customer.name", "null")])
    assert json.loads(changed) == {
        "id": 12345678901234567890123,
        "price": 1.1,
        "lines": [{"n": 2}],
        "city": "Bonn",
        "customer": {"name": None},
    }


@pytest.mark.parametrize(
    ("body", "change"),
    [
        (b"nope", ("a", "1")),
        (b'{"a":1}', ("a", "Bonn")),
        (b'{"a":1}', ("a.b", "1")),
        (b'{"a":[1]}', ("a.7", "1")),
        (b'{"a":[1]}', ("a.x.y", "1")),
    ],
)
def test_what_cannot_be_set(body: bytes, change: tuple[str, str]) -> None:
    with pytest.raises(BadEdit):
        with_fields(body, [change])
