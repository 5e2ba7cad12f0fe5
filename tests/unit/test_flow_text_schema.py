"""Typed columns: what fits, what is refused and with which words, and that all ways to declare a schema agree."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sweep import sweep

from towpath.errors import BadFlow
from towpath.flow.documents import Schema
from towpath.flow.failures import ErrorCode

EVERYTHING = (
    "name string, at bigint, small smallint, tiny tinyint, n int, ok boolean, x double, price decimal(18,2), day date, "
    "seen timestamp, local timestamp_ntz, tags array<string>, place struct<lat:double,lon:double not null>, "
    "counts map<string,int>, deep array<struct<a:array<decimal(5,1)>,b:map<string,date>>>, note string not null"
)
RECORD: dict[str, Any] = {
    "name": "a",
    "at": 1,
    "small": -5,
    "tiny": 7,
    "n": 2147483647,
    "ok": True,
    "x": 0.1,
    "price": 12.5,
    "day": "2024-02-29",
    "seen": "2024-05-06T07:08:09.5+02:00",
    "local": "2024-05-06T07:08:09",
    "tags": ["x", None],
    "place": {"lat": 1, "lon": 2.5},
    "counts": {"a": 1, "b": None},
    "deep": [{"a": [1, 2.5], "b": {"d": "2024-01-01"}}, None],
    "note": "n",
    "extra": [1],
}


def column(ddl: str, *values: Any) -> list[Any]:
    """The values of a column of one type; all must fit."""
    batch, failures = Schema.of(f"v {ddl}").columns([{"v": value} for value in values])
    assert not failures
    read: list[Any] = batch.column("v").to_pylist(maps_as_pydicts="strict")
    return read


def refused(ddl: str, value: Any, good: Any = None) -> str:
    """The message for a value that does not fit, among others that do."""
    batch, failures = Schema.of(f"v {ddl}").columns([{"v": good}, {"v": value}, {"v": good}])
    assert list(failures) == [1]
    assert failures[1].code is ErrorCode.NOT_VALID
    assert batch.num_rows == 3
    return failures[1].message


def test_every_type_is_read_exactly() -> None:
    batch, failures = Schema.of(EVERYTHING).columns([RECORD, None, {"note": ""}])
    assert not failures
    batch.validate(full=True)
    first, unread, empty = batch.to_pylist(maps_as_pydicts="strict")
    assert first == {
        **{name: value for name, value in RECORD.items() if name != "extra"},
        "price": Decimal("12.50"),
        "day": date(2024, 2, 29),
        "seen": datetime(2024, 5, 6, 5, 8, 9, 500_000, tzinfo=UTC),
        "local": datetime(2024, 5, 6, 7, 8, 9),  # noqa: DTZ001 -- it has no zone on purpose
        "place": {"lat": 1.0, "lon": 2.5},
        "deep": [{"a": [Decimal("1.0"), Decimal("2.5")], "b": {"d": date(2024, 1, 1)}}, None],
    }
    assert set(unread.values()) == {None}
    assert {name for name, value in empty.items() if value is not None} == {"note"}


@sweep(
    ("ddl", "value", "read"),
    [
        ("bigint", 1.0, 1),
        ("bigint", 1e3, 1000),
        ("bigint", Decimal("9007199254740993.0"), 9007199254740993),
        ("bigint", -(2**63), -(2**63)),
        ("double", 3, 3.0),
        ("double", 2**53, 2.0**53),
        ("double", 2**60, 2.0**60),
        ("double", -0.0, -0.0),
        ("decimal(18,2)", 0.1, Decimal("0.10")),
        ("decimal(18,2)", 7, Decimal("7.00")),
        ("decimal(18,2)", Decimal("1.50000000000000000000000000000000000000000000"), Decimal("1.50")),
        (
            "decimal(38,18)",
            Decimal("12345678901234567890.123456789012345678"),
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("decimal(3,2)", -9.99, Decimal("-9.99")),
        ("decimal(5,0)", 1e4, Decimal("10000")),
        ("timestamp", "1969-12-31T23:59:59.999999Z", datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("timestamp", "2024-01-01T00:00:00.123456000Z", datetime(2024, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)),
        ("timestamp", "0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("date", "9999-12-31", date(9999, 12, 31)),
        ("array<array<int>>", [[1], [], None], [[1], [], None]),
        ("array<string>", [], []),
        ("map<string,string>", {}, {}),
        ("struct<a:int>", {"b": 1}, {"a": None}),
        ("string", "\x00é\U0001f600", "\x00é\U0001f600"),
    ],
)
def test_an_equal_value_is_taken(ddl: str, value: Any, read: Any) -> None:
    for found in (column(ddl, value)[0], column(ddl, None, value, None)[1]):
        assert (type(found), str(found)) == (type(read), str(read))


@sweep(
    ("ddl", "value", "found"),
    [
        ("string", 1, "number 1"),
        ("string", True, "boolean true"),
        ("string", ["a"], "an array"),
        ("string", {}, "an object"),
        ("boolean", 1, "number 1"),
        ("boolean", 0.0, "number 0.0"),
        ("boolean", "true", 'string "true"'),
        ("bigint", True, "boolean true"),
        ("bigint", "1", 'string "1"'),
        ("bigint", 1.5, "number 1.5"),
        ("bigint", 2**63, "out of its range"),
        ("bigint", 1e30, "out of its range"),
        ("bigint", Decimal("1.00000000000000000001"), "number 1.00000000000000000001"),
        ("bigint", Decimal("1e999999999"), "number 1E+999999999"),
        ("int", 2**31, "out of its range"),
        ("smallint", 40_000, "out of its range"),
        ("tinyint", 128, "out of its range"),
        ("double", True, "boolean true"),
        ("double", "1.5", 'string "1.5"'),
        ("double", 2**53 + 1, "cannot hold exactly"),
        ("double", Decimal("0.1000000000000000055"), "cannot hold exactly"),
        ("double", Decimal("1e400"), "cannot hold exactly"),
        ("double", 10**400, "out of its range"),
        ("decimal(18,2)", 1.005, "too many digits"),
        ("decimal(18,2)", Decimal("1e400"), "too many digits"),
        ("decimal(18,2)", Decimal("1e-999999999"), "too many digits"),
        ("decimal(18,2)", Decimal("1e999999999999"), "too many digits"),
        ("decimal(38,10)", 3.1747936734103778e-133, "too many digits"),
        ("decimal(38,38)", 1e-300, "too many digits"),
        ("decimal(18,2)", 10**16, "too many digits"),
        ("decimal(3,2)", 10, "too many digits"),
        ("decimal(18,2)", True, "boolean true"),
        ("decimal(18,2)", "1.00", 'string "1.00"'),
        ("date", 1, "number 1"),
        ("date", "2024-02-30", "no day"),
        ("date", "2023-02-29", "no day"),
        ("date", "0000-01-01", "no day"),
        ("date", "2024-1-1", "is written"),
        ("date", "20240101", "is written"),
        ("date", "2024-01-01T00:00:00Z", "is written"),
        ("date", " 2024-01-01", "is written"),
        ("date", "2024-01-01\n", "is written"),
        ("date", "２０２４-01-01", "is written"),
        ("timestamp", 1_700_000_000, "number 1700000000"),
        ("timestamp", "2024-05-06T07:08:09", "is written 2024-05-06T07:08:09Z"),
        ("timestamp", "2024-05-06 07:08:09Z", "is written"),
        ("timestamp", "2024-05-06T07:08Z", "is written"),
        ("timestamp", "2024-05-06T07:08:09+0200", "is written"),
        ("timestamp", "2024-05-06T07:08:09z", "is written"),
        ("timestamp", "2024-05-06T07:08:09Z\n", "is written"),
        ("timestamp", "2024-05-06T07:08:09.1234567Z", "six digits"),
        ("timestamp", "2024-05-06T24:00:00Z", "no time"),
        ("timestamp", "2024-05-06T07:08:60Z", "no time"),
        ("timestamp", "2024-05-06T07:08:09+25:00", "no time"),
        ("timestamp", "0001-01-01T00:00:00+01:00", "no time"),
        ("timestamp", "9999-12-31T23:59:59-01:00", "no time"),
        ("timestamp_ntz", "2024-05-06T07:08:09Z", "is written 2024-05-06T07:08:09,"),
        ("array<string>", "abc", 'string "abc"'),
        ("array<string>", {"a": 1}, "an object"),
        ("array<bigint>", [1, True], "field v[1]: expected bigint"),
        ("array<bigint>", [1, 1.5], "field v[1]: expected bigint"),
        ("struct<a:int,b:struct<c:boolean>>", {"b": {"c": 1}}, "field v.b.c: expected boolean"),
        ("struct<a:int>", [["a", 1]], "an array"),
        ("struct<a:int not null>", {}, "field v.a: expected int not null, found nothing"),
        ("map<string,int>", [["a", 1]], "an array"),
        ("map<string,int>", {"a": "1"}, "field v.a: expected int"),
    ],
)
def test_another_value_is_refused(ddl: str, value: Any, found: str) -> None:
    message = refused(ddl, value)
    assert message.startswith("field v")
    assert "expected " in message
    assert found in message


@pytest.mark.parametrize("document", [{}, {"v": None}])
def test_not_null_means_that_the_field_is_there(document: dict[str, Any]) -> None:
    batch, failures = Schema.of("v string not null, w int").columns([{"v": "a"}, document, None])
    assert [(row, failure.code) for row, failure in failures.items()] == [(1, ErrorCode.NOT_VALID)]
    assert failures[1].message.startswith("field v: ")
    assert batch.column("v").to_pylist() == ["a", None, None]


def test_the_first_field_that_does_not_fit_is_named() -> None:
    _, failures = Schema.of("a int, b int").columns([{"a": "x", "b": "y"}, {"a": 1, "b": "y"}])
    assert [failure.message.partition(":")[0] for failure in failures.values()] == ["field a", "field b"]


def test_messages_are_bounded_and_fingerprints_tell_fields_apart() -> None:
    documents: list[dict[str, Any] | None] = [{"a": "x" * 100_000}, {"a": "y"}, {"b": {"k" * 5_000: 1}}]
    _, failures = Schema.of("a int, b map<string,string>").columns(documents)
    assert all(len(failure.message) <= 1_000 for failure in failures.values())
    assert failures[0].fingerprint == failures[1].fingerprint != failures[2].fingerprint


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))))
@settings(deadline=None)
def test_a_column_holds_equal_values_and_nulls_only_for_failures(values: list[Any]) -> None:
    documents = [{"v": value} for value in values]
    for ddl in ("bigint", "double", "decimal(38,10)", "boolean"):
        batch, failures = Schema.of(f"v {ddl}").columns(documents)
        for row, read in enumerate(batch.column("v").to_pylist()):
            if row in failures:
                assert read is None
            else:
                assert read == (Decimal(repr(values[row])) if isinstance(read, Decimal) else values[row])
                assert (type(read) is bool) == (type(values[row]) is bool)


# --- fields outside of the schema ---


def test_fields_outside_are_kept_dropped_or_refused() -> None:
    documents: list[dict[str, Any] | None] = [{"a": 1}, {"a": 1, "y": 2, "z": 3}, None]
    for extra in ("keep", "drop"):
        assert not Schema.of("a int", extra=extra).columns(documents)[1]
    _, failures = Schema.of("a int", extra="refuse").columns(documents)
    assert list(failures) == [1]
    assert '"y", "z"' in failures[1].message


def test_refusing_looks_into_declared_objects() -> None:
    schema = Schema.of("a array<struct<b:int>>, m map<string,struct<c:int>>", extra="refuse")
    _, failures = schema.columns([{"a": [{"b": 1, "x": 1}], "m": {"k": {"d": 1}}}, {"a": [{"b": 1}], "m": {"k": {}}}])
    assert list(failures) == [0]
    assert '"a[0].x", "m.k.d"' in failures[0].message


# --- ways to declare a schema ---


def spark_type(schema: Schema, *, nullable: bool = False) -> Any:
    """What Spark makes of the Arrow columns of a schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = schema.arrow() if nullable else pa.schema(list(schema.struct.arrow))
    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


def test_spark_and_text_agree() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = Schema.of(EVERYTHING)
    declared = spark_type(schema)
    assert Schema.of(declared) == schema
    assert to_arrow_schema(declared, timezone="UTC").equals(pa.schema(list(schema.struct.arrow)), check_metadata=False)
    nullable = spark_type(schema, nullable=True)
    assert all(field.nullable for field in nullable)
    assert to_arrow_schema(nullable, timezone="UTC").equals(schema.arrow())


def test_null_within_arrays_and_maps_may_be_forbidden_by_sparks_types() -> None:
    from pyspark.sql import types as t

    declared = t.StructType(
        [
            t.StructField("a", t.ArrayType(t.LongType(), containsNull=False)),
            t.StructField("m", t.MapType(t.StringType(), t.LongType(), valueContainsNull=False)),
        ]
    )
    schema = Schema.of(declared)
    assert spark_type(schema) == declared
    _, failures = schema.columns([{"a": [None]}, {"m": {"k": None}}, {"a": [1], "m": {"k": 1}}])
    assert {row: failure.message.split(": ")[0] for row, failure in failures.items()} == {
        0: "field a[0]",
        1: "field m.k",
    }


def test_types_that_json_has_no_value_for_are_refused_in_sparks_types() -> None:
    from pyspark.sql import types as t

    interval = t.DayTimeIntervalType()
    for kind in (t.FloatType(), t.BinaryType(), t.VarcharType(5), interval, t.MapType(t.LongType(), t.StringType())):
        with pytest.raises(BadFlow):
            Schema.of(t.StructType([t.StructField("a", t.ArrayType(kind))]))


def test_a_schema_travels() -> None:
    rules = Schema.of({"type": "object", "properties": {"a": {"type": "integer"}}}, extra="refuse")
    for schema in (Schema.of(EVERYTHING), rules):
        assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301 -- made here


@pytest.mark.parametrize(
    "ddl",
    [
        "`odd name` STRING NOT NULL COMMENT 'it''s odd', `a``b`: Int",
        "A Struct < b : Array < Int > , c Decimal ( 10 , 2 ) >",
        "a dec, b numeric(5), c long, d short, e byte, f integer, g timestamp_ltz",
    ],
)
def test_spellings_of_spark_are_understood(ddl: str) -> None:
    schema = Schema.of(ddl.replace("'it''s odd'", "'odd'"))
    assert Schema.of(spark_type(schema)) == schema


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("", "ends"),
        ("a", "ends"),
        ("a string,", "ends"),
        ("a string b", "expected"),
        ("a array<string", "'>'"),
        ("a array string", "'<'"),
        ("a map<int,string>", "'string'"),
        ("a decimal(50,2)", "38"),
        ("a decimal(2,5)", "38"),
        ("a decimal(x)", "number"),
        ("a string not", "'null'"),
        ("a text", "'text'"),
        ("a float", "double"),
        ("a binary", "bytes"),
        ("a string; drop", "understood"),
        ("at bigint, at timestamp", "'at' and 'at'"),
        ("at bigint, At bigint", "case"),
        ({"type": "nonsense"}, "JSON Schema"),
        ({"$ref": "#/nowhere"}, "JSON Schema"),
    ],
)
def test_what_cannot_be_a_schema_is_refused_when_it_is_made(declared: Any, why: str) -> None:
    with pytest.raises(BadFlow, match=why):
        Schema.of(declared)


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(BadFlow, match="keep"):
        Schema.of("a int", extra="ignore")  # type: ignore[arg-type]


# --- JSON Schema ---

CLICK = {
    "type": "object",
    "required": ["name", "note"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "at": {"type": "integer", "minimum": 0},
        "x": {"type": "number"},
        "ok": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
        "either": {"type": ["string", "integer"]},
        "listed": {"enum": [1, "a"]},
        "referred": {"$ref": "#/$defs/name"},
        "anything": True,
        "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
    },
    "$defs": {"name": {"type": "string"}},
}


def test_json_schema_gives_columns_where_it_is_plain() -> None:
    assert pa.schema(list(Schema.of(CLICK).struct.arrow)) == pa.schema(
        [
            pa.field("name", pa.string(), nullable=False),
            pa.field("at", pa.int64()),
            pa.field("x", pa.float64()),
            pa.field("ok", pa.bool_()),
            pa.field("note", pa.string()),
            pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
            pa.field("place", pa.struct([pa.field("lat", pa.float64(), nullable=False)])),
        ]
    )


def test_json_schema_is_validated_with_the_path() -> None:
    good: dict[str, Any] = {"name": "a", "note": None, "listed": 1, "at": 1.0, "other": 1}
    documents: list[dict[str, Any] | None] = [
        good,
        {"name": "", "note": None},
        {"name": "a"},
        {**good, "place": {"lat": "x"}},
        {**good, "listed": 2},
        {**good, "at": Decimal("1.00000000000000000001")},
        {**good, "at": 2**64},
        None,
    ]
    batch, failures = Schema.of(CLICK).columns(documents)
    assert batch.column("at").to_pylist()[0] == 1
    assert sorted(failures) == [1, 2, 3, 4, 5, 6]
    assert failures[1].message.startswith("name: ")
    assert '"note"' in failures[2].message
    assert failures[3].message.startswith("place.lat: ")
    assert failures[6].message.startswith("field at: ")


def test_fields_that_json_schema_declares_without_a_column_are_not_outside() -> None:
    schema = Schema.of(CLICK, extra="refuse")
    document = {"name": "a", "note": "", "listed": 1, "anything": 5}
    assert not schema.columns([document])[1]
    assert '"other"' in schema.columns([{**document, "other": 1}])[1][0].message


def test_no_documents_are_columns_without_rows() -> None:
    """Where all records of a portion have failed or were put elsewhere before they are held to the schema."""
    columns, unfit = Schema.of(EVERYTHING).columns([], step="s")
    assert (columns.num_rows, columns.num_columns, unfit) == (0, 16, {})
