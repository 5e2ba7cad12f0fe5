"""Cells, names and directories: what `table` and `files` make of records, and what they refuse to be made of."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.db.tables.model import is_table_name, quoted
from towpath.errors import BadFlow
from towpath.flow.sinks.files.sink import files, safe_targets
from towpath.flow.sinks.table.rows import BadCell, Cells
from towpath.flow.sinks.table.sink import table
from towpath.flow.sinks.template import Template

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def cells(text: bytes, *names: str, **options: bool) -> list[Any]:
    return Cells(names, **{"may_leave_out": True, "is_sqlite": True, **options}).of(text)


def test_cells_are_pythons_values_for_sqlite():
    text = b'{"t": "x\\u00e4", "i": -5, "f": 1.50, "y": true, "n": null, "o": {"a": 1.0}, "l": [ 1 ]}'
    assert cells(text, "t", "i", "f", "y", "n", "o", "l", "none") == [
        "xä", -5, 1.5, 1, None, '{"a": 1.0}', "[ 1 ]", None,
    ]  # fmt: skip


def test_cells_are_texts_for_postgresql():
    text = b'{"t": "x", "i": 123456789012345678901234567890, "f": 1.50, "y": false, "n": null}'
    found = cells(text, "t", "i", "f", "y", "n", is_sqlite=False)
    assert found == ["x", "123456789012345678901234567890", "1.50", "false", None]


@pytest.mark.parametrize(
    "number", ["9223372036854775808", "-9223372036854775809", "0.12345678901234567890", "1e400", "-1e400"]
)
def test_a_number_that_sqlite_would_change_is_refused(number):
    with pytest.raises(BadCell):
        cells(f'{{"n": {number}}}'.encode(), "n")


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_sqlite_can_hold_stay_as_they_are(number):
    [found] = cells(orjson.dumps({"n": number}), "n")
    assert Decimal(repr(found)) == Decimal(repr(number))


def test_a_field_without_a_column_is_refused_when_nothing_keeps_it():
    with pytest.raises(BadCell, match="'b'"):
        cells(b'{"a": 1, "b": 2}', "a", may_leave_out=False)


def test_names_are_quoted():
    assert quoted('a"b') == '"a""b"'
    for name in ("", "a\x00b"):
        with pytest.raises(ValueError, match="character"):
            quoted(name)
    assert not any(map(is_table_name, ["", " ", "a\x00", "sqlite_a", "SQLite_a", "x" * 64, "ü" * 32]))
    assert not any(map(is_table_name, ["towpath_stage", "towpath_stage_0", "towpath_mark", "Towpath_Launch"]))
    assert is_table_name("towpath_orders")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "mysql://x"}, "sqlite:///path or postgresql"),
        ({"mode": "delete"}, "mode"),
        ({"mode": "insert", "key": ["n"], "columns": {"n": "text"}}, "meaning"),
        ({"key": ["n"]}, "'n'"),
        ({"columns": {"version": "text"}}, "own"),
        ({"columns": {"n": "text); drop table x; --"}}, "type"),
        ({"columns": {"": "text"}}, "column"),
        ({"document": False}, "store"),
    ],
)
def test_a_table_that_cannot_work_is_refused_at_once(options, says):
    with pytest.raises(BadFlow, match=says):
        table("orders", **{"url": "sqlite:///out.db", **options})
    with pytest.raises(BadFlow, match="name"):
        table("sqlite_master", url="sqlite:///out.db")


@pytest.mark.parametrize("kind", ["bigint", "numeric(10, 2)", "double precision", "text not null", "varchar(20)"])
def test_usual_types_are_allowed(kind):
    assert table("orders", url="sqlite:///out.db", columns={"n": kind}).shape.columns["n"] == kind


@given(TEXTS | st.sampled_from(["..", ".", "../x", "a/b", "/", "a/../..", "\x00", "~"]), TEXTS)
def test_a_filled_directory_is_below_its_root(day, user):
    template = Template("/data/out/{day}/u-{user}")
    target = template.filler()({"day": day, "user": user})
    if safe_targets(template)(target):
        path = Path(target)
        assert ".." not in path.parts
        assert path.parts == ("/", "data", "out", day, f"u-{user}")
        assert user
    else:
        plain = day.isalnum() and user.isalnum() and len(day.encode()) < 200 and len(user.encode()) < 200
        assert not plain


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "csv"}, "format"),
        ({"schema": pyarrow.schema([("n", pyarrow.int64())])}, "schema"),
        ({"compression": "zstd"}, "compression of json"),
        ({"format": "parquet", "compression": "brotli"}, "compression of parquet"),
        ({"format": "parquet", "schema": pyarrow.schema([("id", pyarrow.int64())])}, "own"),
    ],
)
def test_files_that_cannot_work_are_refused_at_once(options, says):
    with pytest.raises(BadFlow, match=says):
        files("out", **options)
    with pytest.raises(BadFlow, match="name"):
        files("")


def test_a_directory_does_not_depend_on_where_the_worker_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert table("orders", url="sqlite:///out.db").url == f"sqlite:///{tmp_path}/out.db"
    sink = files("out/../events/{day}")
    assert str(sink.target) == f"{tmp_path}/events/{{day}}"
    assert sink.root == tmp_path / "events"
