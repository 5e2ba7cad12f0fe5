"""Lines to records: values keep their digits, what is no record is refused with its rule, and nothing else changes."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadSettings, BadValue
from towpath.flow.documents.schema import parse_ddl
from towpath.flow.documents.types import Misfit
from towpath.gateway.line_records import RecordMaker, numbered
from towpath.gateway.lines.csv_lines import CsvColumn, CsvLines, columns_of
from towpath.gateway.lines.json_lines import JsonLines
from towpath.gateway.lines.lines import MARK, LineReading, Stamp
from towpath.gateway.uploads.model import UploadSender
from towpath.gateway.uploads.streams import Stream, Streams
from towpath.settings import GatewaySettings

SCHEMA = parse_ddl("id string not null, fare bigint, at timestamp, ok boolean, price decimal(6,2), day date, x double")
COLUMNS = ["id", "fare", "at", "ok", "price", "day", "x", "note"]
GOOD = b"A1,1200,2024-05-06T07:08:09Z,true,12.50,2024-02-29,1.50,hello"
STAMP = Stamp("u-1", "main")


def csv_lines(columns: list[str] = COLUMNS, key: str | None = "id", stamp: Stamp = STAMP, most: int = 200) -> CsvLines:
    return CsvLines(columns, SCHEMA if columns is COLUMNS else None, stamp, key, most)


def read(reader: CsvLines | JsonLines, *lines: bytes) -> LineReading:
    return reader.read(lines, range(1, len(lines) + 1))


def test_a_line_becomes_a_document_with_the_upload_first_and_numbers_as_they_were_written() -> None:
    found = read(csv_lines(), GOOD)
    assert found.values == [
        b'{"upload":"u-1","id":"A1","fare":1200,"at":"2024-05-06T07:08:09Z","ok":true,"price":12.50,'
        b'"day":"2024-02-29","x":1.50,"note":"hello"}'
    ]
    assert found.keys == [b"A1"]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"A1,,,,,,,", {"id": "A1", "fare": None, "at": None, "ok": None, "note": ""}),
        (b"A1,,,,,,,\r", {"id": "A1", "note": ""}),
        (b'A1,"7",,,,,,"say ""hi"", twice"', {"fare": 7, "note": 'say "hi", twice'}),
        (b'A1,,,,,,,"two\nlines"', {"note": "two\nlines"}),
        (b"A1,,,,,,,tab\there \\ back", {"note": "tab\there \\ back"}),
        ("é,,,,,,,日本".encode(), {"id": "é", "note": "日本"}),
        (b'A1,,,,,,,5" pipe', {"note": '5" pipe'}),
        (b"A1,-9223372036854775808,,,,,,", {"fare": -(1 << 63)}),
        (b"A1,1e3,,,,,,", {"fare": 1000.0}),
    ],
)
def test_fields_are_read_as_csv_has_them(line: bytes, fields: dict[str, object]) -> None:
    found = read(csv_lines(), line)
    assert found.refusals == {}
    document = json.loads(found.values[0] or b"")
    assert {name: document[name] for name in fields} == fields
    assert list(document) == ["upload", *COLUMNS]


@pytest.mark.parametrize(
    ("line", "rule", "message"),
    [
        (b"A1,1", "wrong number of fields", "2 fields; there are 8 columns"),
        (b"A1,,,,,,,,", "wrong number of fields", "9 fields"),
        (b"A1,twelve,,,,,,", "schema", 'field fare: expected bigint, found string "twelve"'),
        (b"A1,007,,,,,,", "schema", 'found string "007"'),
        (b"A1, 7,,,,,,", "schema", 'found string " 7"'),
        (b"A1,1.5,,,,,,", "schema", "found number 1.5"),
        (b"A1,9223372036854775808,,,,,,", "schema", "out of its range"),
        (b"A1,,2024-05-06 07:08:09,,,,,", "schema", "a time is written"),
        (b"A1,,,yes,,,,", "schema", "expected boolean"),
        (b"A1,,,,1.234,,,", "schema", "too many digits"),
        (b"A1,,,,,2023-02-29,,", "schema", "no day"),
        (b"A1,,,,,,NaN,", "schema", "expected double"),
        (b"A1,,,,,,1e999999999999999999999,", "schema", "field x"),
        (b'"A1,,,,,,,', "wrong quotes", "field 1 begins with a quote"),
        (b'A1,"x"y,,,,,,', "wrong quotes", "field 2"),
        (b"A1,,,,,,,\xff", "not UTF-8", "byte 9"),
        (b"A1" + b"x" * 200, "line too long", "longer than 200 bytes"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_rule(line: bytes, rule: str, message: str) -> None:
    found = read(csv_lines(), GOOD, line, GOOD)
    assert found.values[0] == found.values[2] is not None
    assert found.values[1] is None
    assert list(found.refusals) == [1]
    assert found.refusals[1].rule == rule
    assert message in found.refusals[1].message


def test_blank_lines_are_passed_over() -> None:
    assert read(csv_lines(), b"", b"\r").values == [None, None]
    assert read(csv_lines(["one"], None), b"", b"x", b"\r").values == [None, b'{"upload":"u-1","one":"x"}', None]
    assert read(JsonLines(None, STAMP, None, 99), b"", b" \r").values == [None, None]


def test_names_and_uploads_are_written_as_json_wants_them() -> None:
    stamp = Stamp('u"%s', "main", 'the "upload"', "line %d")
    reader = CsvLines(['a "b" %s', "c\\"], None, stamp, None, 99)
    expected = {'the "upload"': 'u"%s', "line %d": 1, 'a "b" %s': "x%y", "c\\": "z"}
    assert json.loads(read(reader, b"x%y,z").values[0] or b"") == expected
    assert json.loads(read(reader, b'"x%y",z').values[0] or b"") == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "columns"),
        (["id", ""], "empty"),
        (["id", "id"], "twice"),
        (["id", "upload"], "gateway puts"),
        (["fare"], "id"),
        (["id", "nested"], "JSON"),
    ],
)
def test_columns_that_could_never_be_records_are_refused_at_once(columns: list[str], message: str) -> None:
    schema = parse_ddl("id string not null, nested array<int>")
    with pytest.raises(BadValue, match=message):
        columns_of(columns, schema, ["upload"], None)


def test_the_key_has_to_be_a_column() -> None:
    with pytest.raises(BadValue, match="route"):
        columns_of(["id"], None, [], "route")


SCALARS = ["tinyint", "smallint", "int", "bigint", "double", "decimal(5,2)", "boolean", "date", "timestamp", "string"]
TOKENS = st.one_of(
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(lambda value: f"{value:f}"),
    st.dates().map(str),
    st.datetimes().map(lambda value: f"{value.isoformat()}Z"),
    st.sampled_from(["true", "false", "0", "-0", "00", "1.", ".5", "+1", "1e5", "-", "", "0000-01-01", "2024-13-01"]),
    st.text(alphabet="0123456789-.eETZ:+", max_size=24),
)


@given(st.sampled_from(SCALARS), TOKENS)
def test_the_quick_way_takes_only_what_the_exact_way_takes_and_writes_it_alike(kind: str, token: str) -> None:
    schema = parse_ddl(f"a string, b {kind}")
    (field,) = (each for each in schema.fields if each.name == "b")
    column = CsvColumn(field)
    found = read(CsvLines(["a", "b"], schema, STAMP, None, 99), f"x,{token}".encode())
    try:
        expected = f'{{"upload":"u-1","a":"x","b":{column.token(token)}}}'.encode()
    except Misfit:
        assert found.values == [None]
        assert found.refusals[0].rule == "schema"
    else:
        assert found.values == [expected]
        if kind.startswith("decimal") and token:
            assert json.loads(expected, parse_float=Decimal)["b"] == Decimal(token)


# JSON lines


def test_a_json_line_keeps_its_bytes() -> None:
    reader = JsonLines(SCHEMA, STAMP, "id", 200)
    found = read(reader, b' {"id": "a", "x": 1.0, "more": [1.50, {}]}\r', b'{ "id":"b"}')
    assert found.values == [b'{"upload":"u-1","id": "a", "x": 1.0, "more": [1.50, {}]}', b'{"upload":"u-1","id":"b"}']
    assert found.keys == [b"a", b"b"]
    assert read(JsonLines(None, STAMP, None, 99), b"{}").values == [b'{"upload":"u-1"}']


def test_the_number_of_a_line_may_stand_in_its_record() -> None:
    stamp = Stamp("u-1", "main", "upload", "line")
    assert JsonLines(None, stamp, None, 99).read([b'{"a":1}'], [7]).values == [b'{"upload":"u-1","line":7,"a":1}']
    assert CsvLines(["a"], None, stamp, None, 99).read([b"1"], [7]).values == [b'{"upload":"u-1","line":7,"a":"1"}']


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b'{"id":"a"', "not JSON"),
        (b"[1]", "not an object"),
        (b"7", "not an object"),
        (b'{"id":"a","id":"b"}', "repeated name"),
        (b'{"id":"a","upload":"mine"}', "reserved field"),
        (b'{"fare":1}', "schema"),
        (b'{"id":"a","fare":"x"}', "schema"),
        (b'{"id":"\xff"}', "not UTF-8"),
        (b'{"id":"' + b"x" * 200 + b'"}', "line too long"),
    ],
)
def test_a_json_line_that_is_no_record_is_refused_with_its_rule(line: bytes, rule: str) -> None:
    found = read(JsonLines(SCHEMA, STAMP, None, 200), b'{"id":"a"}', line, b'{"id":"c"}')
    assert [value is None for value in found.values] == [False, True, False]
    assert {row: refusal.rule for row, refusal in found.refusals.items()} == {1: rule}


@pytest.mark.parametrize(
    ("value", "key"), [(b'"a"', b"a"), (b"1.50", b"1.50"), (b"null", None), (b'""', None), (b"[1, 2]", b"[1, 2]")]
)
def test_the_key_is_the_text_of_its_field(value: bytes, key: bytes | None) -> None:
    assert read(JsonLines(None, STAMP, "k", 99), b'{"k": %b, "z": 1}' % value).keys == [key]


# Records


def stream(**told: object) -> Stream:
    return Streams(GatewaySettings.model_validate({"streams": {"flights": told}})).stream("flights")


def sender(format: str = "csv") -> UploadSender:
    row = ("u-1", "main", "flights", format, '["id", "note"]', "receiving", 1, 0, 0, 0, 0, 0, None, None, 0, None)
    return UploadSender.from_row(row)


def maker(record_bytes: int = 1 << 20, line_bytes: int = 5000, **told: object) -> RecordMaker:
    return RecordMaker(stream(**told), sender(), 4, line_bytes, record_bytes)


def test_records_have_headers_and_go_round_by_their_lines() -> None:
    made = maker().make([b"a,1", b"", b"b", b"c,3"], [7, 8, 9, 10])
    assert made.refused == 1
    assert [(record.partition, dict(record.headers)["line"]) for record in made.records] == [
        (3, b"7"),
        (1, b"9"),
        (2, b"10"),
    ]
    assert made.records[0].headers[:2] == (("upload", b"u-1"), ("sender", b"main"))
    mark, about, text = json.loads(made.records[1].value or b"")
    assert (mark, text) == (MARK, "b")
    assert "9" in about.pop("message")
    assert about == {
        "rule": "wrong number of fields",
        "line": 9,
        "sender": "main",
        "upload": "u-1",
    }


def test_bytes_that_are_no_text_are_spelt_out_in_a_refused_line() -> None:
    made = maker().make([b"a,\xff\xe9"], [1])
    assert json.loads(made.records[0].value or b"")[2] == "a,\\xff\\xe9"


def test_all_records_of_an_upload_may_have_its_id_as_their_key() -> None:
    made = maker(inputs={"flights": {"key": "upload"}}).make([b"a,1", b"bad"], [1, 2])
    assert [(record.key, record.partition) for record in made.records] == [(b"u-1", None)] * 2


def test_what_no_record_can_hold_is_refused_with_its_beginning() -> None:
    line = b"a," + b"\x01" * 900  # each of them is six characters in JSON
    made = maker(record_bytes=5000).make([line, b"b,2"], [1, 2])
    assert made.refused == 1
    mark, about, text = json.loads(made.records[0].value or b"")
    assert (mark, about["rule"], len(text)) == (MARK, "record too large", 902)
    assert len(made.records[0].value or b"") < 10_000


def test_a_record_of_several_lines_has_the_number_of_its_first() -> None:
    assert numbered([b"a", b"b\nc\nd", b"e"], 5) == ([5, 6, 9], 10)
    assert numbered([b"a", b"b"], 5) == (range(5, 7), 7)
    assert numbered([], 5) == (range(5, 5), 5)


# Streams


def test_a_stream_without_inputs_has_one_of_its_own_name() -> None:
    found = stream(flow="f")
    assert {name: input.topic for name, input in found.inputs.items()} == {"flights": "flights"}
    two = stream(inputs={"flights": {}, "airports": {"topic": "places"}, "fares": {"after": ["airports"]}})
    assert [input.topic for input in two.inputs.values()] == ["flights", "places", "flights.fares"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"inputs": {"a": {"schema": "x strong"}}}, r"gateway\.streams\.flights\.inputs\.a"),
        ({"inputs": {"a": {"topic": "no/name"}}}, "topic name"),
        ({"inputs": {"a": {"schema": "upload string"}}}, "gateway puts"),
    ],
)
def test_streams_that_cannot_work_are_refused(told: dict[str, object], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        stream(**told)
