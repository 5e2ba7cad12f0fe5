"""What may be sent, and what is refused with its reason."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadPayload
from towpath.queue.payload import from_json, to_json

LIMIT = 1 << 20

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1)), inner)
    ),
    max_leaves=20,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(JSON_VALUES)
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(to_json(value, LIMIT)) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(object(), "JSON", id="object"),
        ({1, 2}, "JSON"),
        (b"bytes", "JSON"),
        ({("a", "b"): 1}, "JSON"),
        (math.nan, "JSON"),
        ([math.inf], "JSON"),
        ({"deep": [{"a": -math.inf}]}, "JSON"),
        ("a\x00b", "NUL"),
        ({"a\x00b": 1}, "NUL"),
        ([1, {"x": ("y", "z\x00")}], "NUL"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (nested(100_000), "JSON|nested"),
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, list) else f"list of {len(value)}",
)
def test_refused(value: Any, reason: str) -> None:
    with pytest.raises(BadPayload, match=reason):
        to_json(value, LIMIT)


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", 'a\\u0000"b', "\\x00"])
def test_text_that_only_spells_nul_passes(text: str) -> None:
    assert json.loads(to_json({"t": text}, LIMIT)) == {"t": text}


def test_circular_value_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(BadPayload, match="JSON"):
        to_json(circle, LIMIT)


@pytest.mark.parametrize("depth", [300, 900, 1_001, 5_000, 50_000])
@pytest.mark.parametrize("leaf", ["plain", "spells \\u0000 nul"])
def test_nesting_is_taken_or_refused_never_a_crash(depth: int, leaf: str) -> None:
    value: Any = leaf
    for _ in range(depth):
        value = [value]
    try:
        text = to_json(value, LIMIT)
    except BadPayload:
        return
    assert text == "[" * depth + json.dumps(leaf) + "]" * depth


@pytest.mark.parametrize(("text", "size"), [("x" * 14, 16), ("é" * 7, 16), ("😀" * 4, 18)])
def test_limit_counts_bytes_not_characters(text: str, size: int) -> None:
    assert to_json(text, size) == f'"{text}"'
    with pytest.raises(BadPayload, match=f"{size} .*{size - 1} .*max_payload_bytes"):
        to_json(text, size - 1)


def test_error_names_what_was_refused() -> None:
    with pytest.raises(BadPayload, match="header"):
        to_json({"x": object()}, LIMIT, "header")


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "{'a': 1}", '{"a": 1} x', "[" * 100_000])
def test_typed_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(BadPayload, match="payload"):
        from_json(text)


def test_typed_text_is_read() -> None:
    assert from_json(' {"a": [1, null, "ü"]} ') == {"a": [1, None, "ü"]}


@pytest.mark.parametrize("text", ["0.1", "-0.0", "1.50", "1E3", "1e-7", "123456789012345678901234567890", "4.35"])
def test_typed_numbers_that_are_kept(text: str) -> None:
    assert float(to_json(from_json(text), LIMIT)) == float(text)
    assert Decimal(to_json(from_json(text), LIMIT)) == Decimal(text)


@pytest.mark.parametrize(
    "text", ["0.12345678901234567890", "1e400", "-1e400", "1e-400", f"1e{10**30}", "9007199254740993.0"]
)
def test_typed_numbers_that_would_become_others_are_refused(text: str) -> None:
    with pytest.raises(BadPayload, match="become"):
        from_json(f'{{"n": {text}}}')
