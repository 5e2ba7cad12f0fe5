"""Records as lines of JSON: whatever a record holds comes back, and what is no record is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sweep import sweep

from towpath.cli.topics.lines import from_line, to_line
from towpath.errors import BadRecord
from towpath.log import NewRecord, Record

PARTS = st.none() | st.binary() | st.text().map(lambda text: text.encode(errors="ignore"))
NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)
HEADERS = st.lists(st.tuples(NAMES, PARTS), max_size=4).map(tuple)


@given(PARTS, PARTS, HEADERS, st.integers(0, 2**45), st.integers(0, 2**31))
def test_every_record_comes_back(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...], time_ms: int, number: int
) -> None:
    record = Record("clicks", number, 7, time_ms, key, value, headers)
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line.encode()) == NewRecord(value, key, headers, time_ms, number)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"value": "v"}', NewRecord(b"v")),
        (b'{"value": null, "key": ""}', NewRecord(None, b"")),
        (b'{"value": {"base64": "/w=="}}', NewRecord(b"\xff")),
        (b'{"value": "v", "headers": {"a": "1", "b": null}}', NewRecord(b"v", None, (("a", b"1"), ("b", None)))),
        (b'{"value": "v", "headers": [["a", "1"], ["a", ""]]}', NewRecord(b"v", None, (("a", b"1"), ("a", b"")))),
        (b'{"value": "v", "topic": "other", "offset": "any"}', NewRecord(b"v")),
    ],
)
def test_what_may_be_left_away(line: bytes, expected: NewRecord) -> None:
    assert from_line(line) == expected


@sweep(
    ("line", "said"),
    [
        (b"no", "not JSON"),
        (b'{"value": NaN}', "not JSON: NaN"),
        (b'{"value": "v"} {}', "not JSON: Extra data"),
        (b'{"value": "\xff"}', "not UTF-8 at byte 12"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "a record is"),
        (b"{}", 'a record has a "value"'),
        (b'{"value": 1}', "the value is text"),
        (b'{"value": {"a": 1}}', "a JSON document as text, in quotes"),
        (b'{"value": {"base64": "!"}}', "the value is not base64"),
        (b'{"value": {"base64": "\xc3\xa9"}}', "the value is not base64"),
        (b'{"value": {"base64": ""}, "key": {"base64": "", "x": 1}}', "the key is text"),
        (b'{"value": "\\ud800"}', "unpaired surrogate"),
        (b'{"value": "v", "keys": "k"}', "'keys' is not a part of a record"),
        (b'{"value": "v", "timestamp": 1.5}', "the timestamp is a whole number"),
        (b'{"value": "v", "partition": true}', "the partition is a whole number"),
        (b'{"value": "v", "partition": %s}' % (b"9" * 5000), "the partition is a whole number"),
        (b'{"value": "v", "headers": "a=b"}', "headers are"),
        (b'{"value": "v", "headers": [["a"]]}', "headers are"),
        (b'{"value": "v", "headers": [[1, "a"]]}', "the name of a header is text"),
        (b'{"value": "v", "headers": {"a": 1}}', "the header 'a' is text"),
    ],
)
def test_what_is_no_record_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(BadRecord) as refused:
        from_line(line)
    assert said in str(refused.value)


def test_text_is_shown_as_text() -> None:
    record = Record("clicks", 0, 1, 2, "ключ".encode(), b'{"a": 1}', (("h", b"\xfe"),))
    assert json.loads(to_line(record)) == {
        "topic": "clicks",
        "partition": 0,
        "offset": 1,
        "timestamp": 2,
        "key": "ключ",
        "value": '{"a": 1}',
        "headers": [["h", {"base64": "/g=="}]],
    }
