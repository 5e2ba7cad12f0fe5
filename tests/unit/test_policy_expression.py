"""The language in which a policy says which records it is about."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sweep import sweep

from towpath.core.expression import Expression
from towpath.errors import BadExpression

VALUES: dict[str, Any] = {
    "value": {
        "country": "DE",
        "total": 12.5,
        "lines": [{"sku": "A-1"}, {"sku": "B-2"}],
        "tags": ["new", "big"],
        "paid": True,
        "note": None,
        "it's": 1,
    },
    "key": "customer-7",
    "headers": {"source": "shop", "content-type": "application/json"},
    "message": "no price for SKU 'A-1'",
    "step": "priced",
    "code": 9,
    "exception": "KeyError",
    "attempts": 2,
}

TRUE = [
    "value.country = 'DE'",
    "value.country == 'DE'",
    "value.country != 'FR'",
    "value.country <> 'FR'",
    "value.total > 12 and value.total <= 12.5",
    "value.total = 1.25e1",
    "value.lines[1].sku = 'B-2'",
    "value.tags contains 'big'",
    "message contains 'SKU'",
    "message like 'no price for %'",
    "message like '%''A-_''%'",
    "key like 'customer-_'",
    "headers.\"content-type\" = 'application/json'",
    "headers.content-type like 'application/%'",
    "code in (7, 8, 9)",
    "exception not in ('Timeout', 'OSError')",
    "value.paid = true",
    "value.note is null",
    "value.missing.deep is null",
    "value.country is not null",
    "not value.country = 'FR'",
    "not (value.country = 'FR' or code = 1)",
    "value.country = 'FR' or code = 9 and attempts >= 2",
    "value.country not like 'F%'",
    "key not contains '8'",
    'value."it\'s" = 1',
    "  (  value.country='DE'  )  ",
    "value.country IN ('DE') AND NOT code = 1",
    "attempts < 3",
    "'a' = 'a'",
    "value.total > -1",
    "value.total > -1.5e-3",
    "value.total = 125E-1",
    "value.total < 1e+2",
    "value.total >= 12.5",
    "value.lines[0].sku = 'A-1'",
    "code = 9 and code in (9) and code not in (1, 2)",
    "code != 8 and code <> 8",
    "code < 10 and code > 8 and code <= 9 and code >= 9",
    "9 = code",
    "'DE' = value.country",
    "value.country contains 'D' and value.country contains value.country",
    "value.tags contains value.tags[1]",
    "value.nothing is null and not value.nothing is not null",
    "null is null",
    "true = true and false = false and not true = false",
    "TRUE = true and value.paid != FALSE",
    "value.paid in (true, 1)",
    "value.a.b.c is null",
    "not not code = 9",
    "code = 1 or code = 2 or code = 9",
    "(code = 9 or code = 1) and (code = 1 or code = 9)",
    "code = 9 or code = 1 and code = 2",
    "value.country > 'AA' and value.country < 'ZZ'",
    'value."x y" is null',
    "message like '%'",
    "key like '%7'",
    "key like 'c%'",
    "key like '%-%'",
    "key like '%customer-7'",
    "key like '%%_ustomer-7%%'",
    "key like '__________'",
    "'' like '' and '' like '%' and 'a' like '_'",
]
FALSE = [
    "value.country = 'FR'",
    "value.missing = 1",
    "value.missing != 1",
    "value.missing < 1",
    "value.note = null",
    "value.total = '12.5'",
    "value.total < 'a'",
    "value.paid = 1",
    "value.lines[9].sku = 'B-2'",
    "value.lines.sku = 'B-2'",
    "value.country.deep = 'DE'",
    "value.country[0] = 'D'",
    "code contains 9",
    "value.total like '12%'",
    "value.tags = 'big'",
    "value = 1",
    "value.note in (null)",
    "value.lines contains null",
    "step like 'price'",
    "code != 9",
    "code <> 9",
    "code < 9",
    "code > 9",
    "code <= 8",
    "code >= 10",
    "code in (1, 2)",
    "code not in (9)",
    "value.missing in (1)",
    "value.missing = 'x'",
    "value.missing contains 'a'",
    "value.missing like '%'",
    "value.country contains 1",
    "value.country contains null",
    "value.tags contains 1",
    "value.tags contains null",
    "code contains null",
    "code = true",
    "value.paid > false",
    "value.tags < value.tags",
    "value.note != null",
    "null = null",
    "value.paid in (1)",
    "key like 'c'",
    "key like 'ustomer%'",
    "key like '%custome'",
    "key like '_________'",
    "key like '___________'",
    "'a' like ''",
    "'' like '_'",
    "code = 9 and code = 1 or code = 2",
    "not code = 9 and code = 9",
    "not (code = 1 or code = 9)",
    "value.lines[2].sku is not null",
    "value.paid is null",
]


@sweep("text", TRUE)
def test_it_holds(text: str) -> None:
    assert Expression.parse(text).holds_of(VALUES)


@pytest.mark.parametrize("text", FALSE)
def test_it_does_not_hold(text: str) -> None:
    assert not Expression.parse(text).holds_of(VALUES)


@sweep(
    ("text", "at"),
    [
        ("", 0),
        ("   ", 3),
        ("value.a =", 9),
        ("value.a = 'open", 10),
        ("value.a == == 1", 11),
        ("country = 'DE'", 0),
        ("value.country = DE", 16),
        ("value.a = 1 value.b = 2", 12),
        ("(value.a = 1", 12),
        ("value.a = 1)", 11),
        ("value..a = 1", 6),
        ("value.a[x] = 1", 8),
        ("value.a[1.5] = 1", 8),
        ("value.a in ()", 12),
        ("value.a in (1, 2", 16),
        ("value.a in (value.b)", 12),
        ("value.a like value.b", 13),
        ("value.a is 3", 11),
        ("value.a not = 3", 12),
        ("value.a", 7),
        ("value.a = 1 and", 15),
        ("value.a; drop table", 7),
        ("__import__('os')", 0),
        ("value.a = 1 or or value.b = 2", 15),
        ("(" * 51 + "value.a = 1" + ")" * 51, 50),
        ("not " * 51 + "value.a = 1", 200),
        ("value.a = 1 or " * 200 + "value.a = 1", 2_000),
        ("(" * 50 + "value.a = 1" + ")" * 50, 50),
        ("value.a = '" + "a" * 1_989 + "'", 2_000),
        ("value.a = 1   ;", 14),
        ("value.a. = 1", 9),
        ("value.a.1 = 1", 8),
        ("value.a['b'] = 1", 8),
        ("value.a[0 = 1", 10),
        ("value.a[-1] = 1", 8),
        ("value.a in 1", 11),
        ("value.a in (1 2)", 14),
        ("value.a in (x)", 12),
        ("value.a = and", 10),
        ("value.a is not 1", 15),
        ("value.a not 1", 12),
        ("value.a like", 12),
        ("value.a contains", 16),
        ("value.a , 1", 8),
        ("value.a ( 1", 8),
        ("= 1", 0),
        ("or", 0),
        ("code = 1)", 8),
        ("(code = 9) and " * 5 + "(" * 50 + "code = 9" + ")" * 50, 125),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, at: int) -> None:
    with pytest.raises(BadExpression) as refused:
        Expression.parse(text)
    assert refused.value.at == at
    assert f"character {at + 1}" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 49 + "code = 9" + ")" * 49,
        "not " * 48 + "code = 9",
        "(code = 9) and " * 60 + "code = 9",  # one after the other is not within each other
        "message != '" + "a" * 1_987 + "'",
    ],
)
def test_an_expression_may_be_deep_and_long(text: str) -> None:
    assert len(text) <= 2_000
    assert Expression.parse(text).holds_of(VALUES)


def test_a_text_of_two_thousand_characters_is_read() -> None:
    text = "message != '" + "a" * 1_987 + "'"
    assert len(text) == 2_000
    assert Expression.parse(text).text == text


def test_it_says_which_names_it_has() -> None:
    assert Expression.parse("value.a = 1 or key = 'b' and not code = 3").names == {"value", "key", "code"}


def test_it_is_asked_of_what_gives_values() -> None:
    assert Expression.parse("code = 9").holds({"code": 9}.get) is True
    assert Expression.parse("code = 9").holds({"code": 8}.get) is False


def test_it_shows_its_text_and_its_names() -> None:
    assert repr(Expression.parse("code = 1")) == "Expression(text='code = 1', names=frozenset({'code'}))"


def test_equal_texts_are_equal() -> None:
    assert Expression.parse("code = 1") == Expression.parse("code = 1")
    assert Expression.parse("code = 1") != Expression.parse("code = 2")


def test_a_pattern_of_many_wildcards_takes_no_time() -> None:
    """A regular expression made of it would not come back."""
    like = Expression.parse("message like '" + "%a" * 500 + "%b'")
    assert not like.holds_of({"message": "a" * 20_000})


def text_of(pattern: str) -> str:
    return pattern.replace("'", "''")


@given(st.text(alphabet="ab%_'", max_size=8), st.text(alphabet="ab%_'", max_size=12))
def test_like_is_what_sql_means_by_it(pattern: str, text: str) -> None:
    def holds(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(holds(pattern[1:], text[at:]) for at in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and holds(pattern[1:], text[1:])

    assert Expression.parse(f"key like '{text_of(pattern)}'").holds_of({"key": text}) == holds(pattern, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.sampled_from(TRUE + FALSE), JSON, JSON)
def test_no_record_makes_it_raise(text: str, value: Any, headers: Any) -> None:
    assert Expression.parse(text).holds_of({**VALUES, "value": value, "headers": headers}) in (True, False)


@given(st.text(max_size=60))
def test_no_text_makes_reading_raise_anything_else(text: str) -> None:
    with suppress(BadExpression):
        Expression.parse(text).holds_of(VALUES)


@given(st.text())
def test_every_text_can_be_asked_for(text: str) -> None:
    assert Expression.parse(f"key = '{text_of(text)[:1900]}'").holds_of(
        {"key": text_of(text)[:1900].replace("''", "'")}
    )


def test_what_json_has_read_can_be_asked() -> None:
    body = json.loads('{"a": {"b": [1, {"c": "x"}]}}')
    assert Expression.parse("value.a.b[1].c = 'x'").holds_of({"value": body})


def test_what_is_wrong_is_said() -> None:
    """Which name is none, and which sign is missing."""
    for text, what in [
        ("country = 1", "'country' .*value, key, headers, message, step, code, exception, attempts"),
        ("(code = 1", r"'\)'"),
        ("value.a[1 = 1", r"'\]'"),
        ("code is 1", "'null'"),
        ("code like 1", "like"),
        ("code in 1", r"'\('"),
        ("code = and", "number"),
    ]:
        with pytest.raises(BadExpression, match=what):
            Expression.parse(text)


def test_names_of_steps_may_be_words_of_the_language() -> None:
    """After a dot everything is a name."""
    values = {"value": {"in": 1, "is": {"null": 2}, "and": 3}}
    for text in ("value.in = 1", "value.is.null = 2", "value.and = 3 and value.or is null"):
        assert Expression.parse(text).holds_of(values)


def test_names_are_taken_as_they_are_written() -> None:
    values = {"value": {"X": 1, "x": 2, "Xx": 3, " ": 4}}
    for text in ("value.X = 1", 'value."X" = 1', "value.x = 2", "value.Xx = 3", 'value." " = 4'):
        assert Expression.parse(text).holds_of(values)


def test_numbers_whole_and_broken() -> None:
    values = {"value": 2**60 + 1}
    assert Expression.parse(f"value = {2**60 + 1}").holds_of(values), "whole numbers are exact"
    assert not Expression.parse(f"value = {2**60}").holds_of(values)
    assert Expression.parse(f"value = -{2**60 + 1}").holds_of({"value": -(2**60) - 1})
