"""What is written, what changed, and that nothing turns into something else on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from tests.support.sweep import sweep

from towpath.flow.documents import Unwritable, changes, copied, splice, splice_rows, write, write_column
from towpath.flow.failures import ErrorCode


class Colour(Enum):
    RED = "red"
    NONE = math.nan


@dataclass
class Hidden:
    value: float = math.nan


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, b"null"),
        ([None, "null", {"null": 1.5}], b'[null,"null",{"null":1.5}]'),
        (2**64 - 1, b"18446744073709551615"),
        (2**64, b"18446744073709551616"),
        ([-(2**63) - 1, {"a": (10**30,)}], b'[-9223372036854775809,{"a":[1000000000000000000000000000000]}]'),
        (Decimal("1.50"), b"1.50"),
        ({"a": Decimal("1E+400")}, b'{"a":1E+400}'),
        (datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC), b'"2024-05-06T07:08:09Z"'),
        (datetime(2024, 5, 6, 7, 8, 9, 5, tzinfo=timezone(timedelta(hours=2))), b'"2024-05-06T05:08:09.000005Z"'),
        (datetime(2024, 5, 6, 7, 8, 9), b'"2024-05-06T07:08:09"'),  # noqa: DTZ001 -- written as it is
        ([date(2024, 5, 6), time(7, 8)], b'["2024-05-06","07:08:00"]'),
        (UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (Colour.RED, b'"red"'),
        (np.float64(1.5), b"1.5"),
        (pd.Timestamp("2024-05-06T07:08:09Z"), b'"2024-05-06T07:08:09Z"'),
        ("é\u2028\x00", b'"\xc3\xa9\xe2\x80\xa8\\u0000"'),
    ],
)
def test_written(value: Any, text: bytes) -> None:
    assert write(value) == text
    assert write_column([value, value]) == ([text, text], {})


@sweep(
    "value",
    [
        math.nan,
        math.inf,
        [{"a": -math.inf}],
        (math.nan, None),
        [2**70, math.nan],
        Decimal("NaN"),
        {"a": Decimal("-Infinity")},
        np.float64("nan"),
        Colour.NONE,
        Hidden(),
        pd.NaT,
        b"bytes",
        [bytearray(b"x")],
        {1: 2},
        {1, 2},
        object(),
        "\ud800",
        {"\udfff": 1},
        deep(300),
        deep(5_000),
    ],
)
def test_what_json_cannot_hold_raises(value: Any) -> None:
    with pytest.raises(Unwritable):
        write(value)
    texts, errors = write_column([1, value, None])
    assert (texts, list(errors)) == ([b"1", b"", b"null"], [1])


def test_the_reason_is_said() -> None:
    with pytest.raises(Unwritable, match="bytes"):
        splice(b"{}", {"a": [b"x"]})
    with pytest.raises(Unwritable, match="NaN"):
        splice(b"{}", {"a": math.nan})


# --- changes ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        (None, 0),
        ("1", 1),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"a": {"b": [1]}}, {"a": {"b": [1.0]}}),
        ({"a": 1}, {"b": 1}),
        ([], {}),
        (1.5, Decimal("1.5")),
    ],
)
def test_values_are_told_apart(before: Any, after: Any) -> None:
    assert changes({"v": before}, {"v": after}) == ({"v": after}, [])
    assert changes({"v": after}, {"v": before}) == ({"v": before}, [])


def test_equal_values_are_no_change_however_they_were_built() -> None:
    before = {"a": 2**70, "b": [1.5, {"c": None}], "d": "x" * 3, "e": Decimal("1e400")}
    after = {"d": "xxx", "b": [1.5, {"c": None}], "a": 2**69 * 2, "e": Decimal("1e400")}
    assert changes(before, after) == ({}, [])
    assert changes(before, {"a": before["a"], "z": None}) == ({"z": None}, ["b", "d", "e"])


def test_a_step_may_change_its_copy_in_place() -> None:
    before = {"tags": ["a", {"b": [1]}], "n": 1}
    view = copied(before)
    view["tags"][1]["b"].append(2)
    assert before == {"tags": ["a", {"b": [1]}], "n": 1}
    assert changes(before, view) == ({"tags": ["a", {"b": [1, 2]}]}, [])


# --- splicing ---


@sweep(
    ("text", "changed", "dropped", "spliced"),
    [
        (b"{}", {"a": 1}, [], b'{"a":1}'),
        (b" { } ", {"a": 1}, [], b' {"a":1 } '),
        (b'{"a":1.0}', {}, [], b'{"a":1.0}'),
        (b'{"a":1.0}', {"b": 2}, [], b'{"a":1.0,"b":2}'),
        (b'{\n  "a": 1.0\n}\n', {"b": 2}, [], b'{\n  "a": 1.0,"b":2\n}\n'),
        (b'{\n  "a": 1.0,\n  "b": 1E2\n}', {"a": 2}, [], b'{\n  "a": 2,\n  "b": 1E2\n}'),
        (b'{\n  "a": 1.0,\n  "b": 1E2\n}', {}, ["a"], b'{\n  "b": 1E2\n}'),
        (b'{\n  "a": 1.0,\n  "b": 1E2\n}', {}, ["b"], b'{\n  "a": 1.0\n}'),
        (b'{"a":1,"b":2,"c":3}', {}, ["a", "b", "c", "d"], b"{}"),
        (b'{"a":1,"b":2,"c":3}', {"c": 0}, ["b"], b'{"a":1,"c":0}'),
        (b'{"a":1,"b":2,"c":3}', {"d": 0}, ["b", "c"], b'{"a":1,"d":0}'),
        (b'{"x":{"a":1}}', {"a": 2}, [], b'{"x":{"a":1},"a":2}'),
        (b'{"x":"a","y":["a"]}', {"a": 2}, [], b'{"x":"a","y":["a"],"a":2}'),
        (b'{"x":{"a":1},"a":1}', {"a": 2}, [], b'{"x":{"a":1},"a":2}'),
        (b'{"\\u0061":1,"b":"\\u00e9"}', {"a": 2}, [], b'{"\\u0061":2,"b":"\\u00e9"}'),
        (b'{"b":"\\"a","a":1}', {"a": 2}, [], b'{"b":"\\"a","a":2}'),
        (b'{"b":"\\"a"}', {"a": 2}, [], b'{"b":"\\"a","a":2}'),
        (b'{"b":"\\"a","\\u0061":1}', {}, ["a"], b'{"b":"\\"a"}'),
        (b'{"a":"b","c":"d"}', {",": 1}, [], b'{"a":"b","c":"d",",":1}'),
        (b'{"a":1,"b":2,"a":3}', {"a": 9}, [], b'{"a":1,"b":2,"a":9}'),
        (b'{"a":1,"b":2,"a":3}', {}, ["a"], b'{"b":2}'),
        (b'{"a":1,"\\u0061":3}', {}, ["a"], b"{}"),
        ('{"é":1}'.encode(), {"é": 2}, [], '{"é":2}'.encode()),
        (b'{"\\u00e9":1}', {"\u00e9": 2}, [], b'{"\\u00e9":2}'),
        (b'{"a":[{"}":"]"}],"b":1}', {"a": "}"}, [], b'{"a":"}","b":1}'),
    ],
)
def test_spliced(text: bytes, changed: dict[str, Any], dropped: list[str], spliced: bytes) -> None:
    for _ in range(12):  # fields are found in another way once a few texts have been gone through
        assert splice(text, changed, dropped) == spliced


def test_rows_that_cannot_be_written_fail_alone() -> None:
    texts = [b'{"a":1}', b'{"a":2}', None, b'{"a":1e2}']
    column = [1.5, math.nan, 1.5, None]
    spliced, failures = splice_rows(texts, ["x"], [column], step="views")
    assert spliced == [b'{"a":1,"x":1.5}', None, None, b'{"a":1e2,"x":null}']
    assert {row: (failure.code, failure.step) for row, failure in failures.items()} == {
        1: (ErrorCode.TRANSFORM_FAILED, "views")
    }
    assert "'x'" in failures[1].message


def test_columns_have_as_many_rows_as_there_are_texts() -> None:
    with pytest.raises(ValueError, match=r"\b2\b.*\b1\b"):
        splice_rows([b"{}"], ["a"], [[1, 2]])


def test_rows_without_changes_stay_as_they_are() -> None:
    assert splice_rows([b"{}", None], [], []) == ([b"{}", None], {})
