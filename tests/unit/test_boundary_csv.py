"""JSON lines as CSV: nothing is lost, and numbers stand as they stood."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.gateway.outlet.page import columns_of, csv_header, csv_lines

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=20))
def test_texts_are_read_back_by_any_reader_of_csv(rows: list[list[str]]) -> None:
    lines = b"".join(json.dumps(dict(zip("ab", row, strict=True))).encode() + b"\n" for row in rows)
    written = csv_lines(lines, ("a", "b")).decode()
    assert list(csv.reader(io.StringIO(written, newline=""))) == rows


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"a": null, "b": ""}', ',""\n'),
        ('{"b": 1}', ",1\n"),
        ('{"a": 1.10, "b": 12345678901234567890}', "1.10,12345678901234567890\n"),
        ('{"a": 1E5, "b": -0.0}', "1E5,-0.0\n"),
        ('{"a": true, "b": false}', "true,false\n"),
        ('{"a": [1.50, {"x": "é\\""}], "b": {}}', '"[1.50,{""x"":""é\\""""}]",{}\n'),
        ('{"a": " x", "b": "y\\n"}', '" x","y\n"\n'),
    ],
)
def test_a_row(line: str, expected: str) -> None:
    assert csv_lines(line.encode() + b"\n", ("a", "b")).decode() == expected


def test_a_single_null_is_no_empty_line() -> None:
    assert csv_lines(b'{"a": null}\n{"a": 1}\n', ("a",)) == b'""\n1\n'


def test_columns_are_those_of_the_first_row_without_the_upload() -> None:
    columns = columns_of(b'{"upload": "u", "to": 1, "from,": 2}\n', without=["upload"])
    assert columns == ("to", "from,")
    assert csv_header(columns) == b'to,"from,"\n'
