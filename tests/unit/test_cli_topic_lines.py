"""Lines as records: exact bytes, counted lines, and the first bad one."""

from __future__ import annotations

import io
from typing import IO

import pytest

from towpath.cli.topics.lines import BadLine, LineForm, RecordLines
from towpath.errors import BadRecord
from towpath.log import NewRecord, Topic

TOPIC = Topic("clicks", "id", 2, None)
LIMIT = 1024


class Trickle(io.BytesIO):
    """Gives a few bytes at a time, as a slow pipe does."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(3)


def read(stream: IO[bytes], form: LineForm, first_line: int = 1) -> tuple[list[NewRecord], list[int], str]:
    """The records, the lines that they were on, and what was said about the line that ended it."""
    records, lines, said = list[NewRecord](), list[int](), ""
    try:
        for batch in RecordLines(stream, form, TOPIC, LIMIT).batches(first_line):
            records += batch.records
            lines += batch.lines
    except BadLine as error:
        said = str(error)
    return records, lines, said


@pytest.mark.parametrize("kind", [io.BytesIO, Trickle])
def test_the_bytes_of_a_line_are_the_value(kind: type[io.BytesIO]) -> None:
    text = b'{"a":  1.0}\r\n\n  \n"\xc3\xa9"\n[1, 2]'
    records, lines, _ = read(kind(text), LineForm())
    assert [record.value for record in records] == [b'{"a":  1.0}', b'"\xc3\xa9"', b"[1, 2]"]
    assert lines == [1, 4, 5]


@pytest.mark.parametrize("kind", [io.BytesIO, Trickle])
def test_raw_lines_are_any_bytes(kind: type[io.BytesIO]) -> None:
    records, _, _ = read(kind(b"\xff\x00\r\n\nlast"), LineForm(raw=True, key=b"k", headers=(("h", b"1"),)))
    assert records == [NewRecord(value, b"k", (("h", b"1"),)) for value in (b"\xff\x00\r", b"", b"last")]


def test_what_is_there_is_given_out_before_more_is_waited_for() -> None:
    batches = RecordLines(Trickle(b"1\n22\n3\n"), LineForm(), TOPIC, LIMIT).batches()
    assert [[record.value for record in batch.records] for batch in batches] == [[b"1"], [b"22"], [b"3"]]


@pytest.mark.parametrize("kind", [io.BytesIO, Trickle])
@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        (b"1\n2\nno\n4\n", [b"1", b"2"], "line 3: not JSON: Expecting value at character 1"),
        (b"1\n\xff\n", [b"1"], "line 2: not UTF-8 at byte 1"),
        (b"1\n" + b"7" * LIMIT + b"\n", [b"1"], f"line 2: a record of {LIMIT + 64} bytes"),
        (b"1\n" + b"7" * 2 * LIMIT + b"\n", [b"1"], "line 2: longer than log.max_record_bytes (1024)"),
        (b"1\n" + b"7" * 2 * LIMIT, [b"1"], "line 2: longer than log.max_record_bytes (1024)"),
    ],
)
def test_the_first_bad_line_ends_it(kind: type[io.BytesIO], text: bytes, values: list[bytes], said: str) -> None:
    records, _, told = read(kind(text), LineForm())
    assert [record.value for record in records] == values
    assert told.startswith(said)


@pytest.mark.parametrize("kind", [io.BytesIO, Trickle])
def test_one_can_go_on_after_a_bad_line(kind: type[io.BytesIO]) -> None:
    text = b"1\nno\n" + b"7" * 5 * LIMIT + b"\n4\n"
    records, lines, told = read(kind(text), LineForm(), first_line=4)
    assert (records, lines, told) == ([NewRecord(b"4")], [4], "")


def test_a_line_without_an_end_is_not_read_to_its_end() -> None:
    class Endless(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return b"7" * 1000

    assert read(Endless(), LineForm())[2].startswith("line 1: longer than")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"user": "ann"}', b"ann"),
        (b'{"user": 12}', b"12"),
        (b'{"user": true}', b"true"),
        (b'{"user": null}', None),
        (b'{"user": %s}' % (b"1" * 400), b"1" * 400),
        (b'{"user": 1.50e2}', b"1.50e2"),
    ],
)
def test_the_key_from_a_field(line: bytes, key: bytes | None) -> None:
    records, _, _ = read(io.BytesIO(line), LineForm(key_field="user"))
    assert records == [NewRecord(line, key)]


@pytest.mark.parametrize("line", [b"{}", b"[]", b'"user"', b'{"user": {}}', b'{"user": []}', b'{"user": "\\udfff"}'])
def test_no_key_to_be_had(line: bytes) -> None:
    assert "line 1: the" in read(io.BytesIO(line), LineForm(key_field="user"))[2]


def test_whole_records_with_headers_for_all_and_partitions_that_exist() -> None:
    text = b'{"value": "v", "headers": {"a": "1"}, "partition": 1}\n{"value": "w", "partition": 2}\n'
    records, _, said = read(io.BytesIO(text), LineForm(records=True, headers=(("b", b"2"),)))
    assert records == [NewRecord(b"v", None, (("a", b"1"), ("b", b"2")), None, 1)]
    assert "line 2: " in said
    assert "'clicks'" in said


def test_the_one_record_that_was_typed_may_have_lines() -> None:
    assert LineForm().only_record(b'{"a":\n1}') == NewRecord(b'{"a":\n1}')
    with pytest.raises(BadRecord):
        LineForm().only_record(b" ")
