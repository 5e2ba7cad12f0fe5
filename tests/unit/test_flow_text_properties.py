"""What holds for every text: numbers are read as they stand, and splicing touches nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from towpath.flow.documents import Unreadable, changes, copied, read_document, splice, splice_rows
from towpath.flow.documents.splice import first_repeated, members

unhurried = settings(deadline=None)  # the machine may have other things to do, and the first array loads pandas

SPACE = st.text(" \t\n\r", max_size=2).map(str.encode)
DIGITS = st.text("0123456789", min_size=1, max_size=22)
INTEGERS = st.tuples(st.sampled_from(["", "-"]), st.one_of(st.just("0"), DIGITS.map(lambda x: x.lstrip("0") or "0")))
FRACTIONS = st.one_of(st.just(""), DIGITS.map(lambda digits: f".{digits}"))
EXPONENTS = st.one_of(
    st.just(""),
    st.tuples(st.sampled_from(["e", "E", "e+", "E-", "e-"]), st.integers(0, 400)).map(lambda x: f"{x[0]}{x[1]}"),
)
NUMBERS = st.tuples(INTEGERS.map("".join), FRACTIONS, EXPONENTS).map("".join)
ODD_NUMBERS = st.sampled_from(
    ["1.0", "1e2", "-0", "-0.0", "1E+2", "0.1", "10.50", "1e400", "1e-400", "9007199254740993"]
)
PLAIN_NUMBERS = st.integers(-(2**63), 2**64 - 1).map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
LETTERS = st.sampled_from([*'ab:,"\\{}[] é€\n/', "\U0001f600"])


def _escaped(letter: str) -> bytes:
    units = letter.encode("utf-16-be")
    return b"".join(b"\\u%02x%02X" % (units[at], units[at + 1]) for at in range(0, len(units), 2))


@st.composite
def strings(draw: st.DrawFn) -> tuple[str, bytes]:
    """A string and one of the ways to spell it."""
    value = draw(st.text(LETTERS, max_size=5))
    spelt = b"".join(
        _escaped(letter) if draw(st.integers(0, 4)) == 0 else json.dumps(letter, ensure_ascii=False)[1:-1].encode()
        for letter in value
    )
    return value, b'"' + spelt + b'"'


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> bytes:
    """The text of some value."""
    which = draw(st.integers(0, 5 if depth else 3))
    if which == 0:
        return draw(strings())[1]
    if which in (1, 2):
        return draw(NUMBERS | ODD_NUMBERS | PLAIN_NUMBERS).encode()
    if which == 3:
        return draw(st.sampled_from([b"true", b"false", b"null"]))
    if which == 4:
        inner = draw(st.lists(values(depth - 1), max_size=3))
        return b"[" + b",".join(draw(SPACE) + one + draw(SPACE) for one in inner) + b"]"
    return assembled(draw, draw(fields(depth - 1)))


@st.composite
def fields(draw: st.DrawFn, depth: int = 2) -> list[tuple[str, bytes, bytes]]:
    """Name, spelling of the name and text of the value, for the fields of an object."""
    names = draw(st.lists(strings(), max_size=4, unique_by=lambda pair: pair[0]))
    return [(name, spelt, draw(values(depth))) for name, spelt in names]


def assembled(draw: st.DrawFn, parts: list[tuple[str, bytes, bytes]]) -> bytes:
    def spaced(token: bytes) -> bytes:
        return draw(SPACE) + token + draw(SPACE)

    return b"{" + draw(SPACE) + b",".join(spaced(key) + b":" + spaced(value) for _, key, value in parts) + b"}"


@st.composite
def objects(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, bytes, bytes]]]:
    """The text of an object, and what it is made of."""
    parts = draw(fields())
    return draw(SPACE) + assembled(draw, parts) + draw(SPACE), parts


def exact_numbers(value: Any) -> Any:
    """The value with every number as the exact Decimal that it prints as."""
    if isinstance(value, dict):
        return {name: exact_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exact_numbers(inner) for inner in value]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def by_the_book(text: bytes) -> Any:
    """What Python's own parser reads, numbers as exact Decimals."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


EDITED = st.one_of(st.integers(), st.booleans(), st.none(), st.text(LETTERS, max_size=3), st.just([1, {"a": 2.5}]))


@unhurried
@given(objects())
def test_every_number_read_is_the_number_in_the_text(made: tuple[bytes, Any]) -> None:
    text, _ = made
    assert exact_numbers(read_document(text)) == by_the_book(text)


@unhurried
@given(NUMBERS)
def test_a_float_is_read_only_where_it_prints_as_the_same_number(token: str) -> None:
    value = read_document(f'{{"v":{token}}}'.encode())["v"]
    assert exact_numbers(value) == Decimal(token)
    if isinstance(value, Decimal):
        near = float(token)
        assert near in (float("inf"), float("-inf")) or Decimal(repr(near)) != value


@unhurried
@given(objects(), objects())
def test_a_repeated_name_is_found_exactly_when_there_is_one(one: tuple[bytes, Any], other: tuple[bytes, Any]) -> None:
    text = b"{" + b",".join(filter(None, (one[0].strip()[1:-1].strip(), other[0].strip()[1:-1].strip()))) + b"}"
    names = [name for name, _, _ in (*one[1], *other[1])]
    if len(names) == len(set(names)):
        assert len(read_document(text)) == len(names)
        return
    assert first_repeated(text) is not None
    with pytest.raises(Unreadable):
        read_document(text)


@unhurried
@given(objects())
def test_members_are_cut_where_they_stand(made: tuple[bytes, list[tuple[str, bytes, bytes]]]) -> None:
    text, parts = made
    found = [
        (name, text[start:value].rstrip(b" \t\r\n:"), text[value:end]) for name, start, value, end in members(text)
    ]
    assert [name for name, _, _ in found] == [name for name, _, _ in parts]
    assert [value for _, _, value in found] == [value for _, _, value in parts]


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, bytes, bytes]], dict[str, Any], list[str]]:
    text, parts = draw(objects())
    names = [name for name, _, _ in parts]
    there = st.sampled_from(names) if names else st.nothing()
    dropped = draw(st.lists(there, unique=True, max_size=3)) if names else []
    changed = draw(st.dictionaries(there | st.text(LETTERS, max_size=3), EDITED, max_size=3))
    return text, parts, changed, [name for name in dropped if name not in changed]


def untouched(text: bytes, touched: set[str]) -> list[bytes]:
    """The texts of the fields that were not touched, from name to value."""
    return [text[start:end] for name, start, _, end in members(text) if name not in touched]


def assert_spliced(before: bytes, after: bytes, changed: Mapping[str, Any], dropped: list[str]) -> None:
    touched = {*changed, *dropped}
    assert untouched(after, touched) == untouched(before, touched)
    expected = {name: value for name, value in read_document(before).items() if name not in dropped} | dict(changed)
    read = read_document(after)
    assert exact_numbers(read) == exact_numbers(expected)
    assert list(read) == list(expected)


@unhurried
@given(edits())
def test_splicing_touches_only_what_changed(made: tuple[bytes, Any, dict[str, Any], list[str]]) -> None:
    text, _, changed, dropped = made
    assert_spliced(text, splice(text, changed, dropped), changed, dropped)
    # Fields are found in another way once a few texts have been gone through.
    many, failures = splice_rows([text] * 12, list(changed), [[value] * 12 for value in changed.values()], dropped)
    assert (set(many), failures) == ({splice(text, changed, dropped)}, {})


@unhurried
@given(st.lists(edits(), min_size=1, max_size=4))
def test_splicing_rows_is_splicing_each(made: list[tuple[bytes, Any, dict[str, Any], list[str]]]) -> None:
    texts = [text for text, _, _, _ in made] * 10
    changed, dropped = made[0][2], made[0][3]
    columns: list[Any] = [[value] * len(texts) for value in changed.values()]
    spliced, failures = splice_rows(texts, list(changed), columns, dropped)
    assert not failures
    assert spliced == [splice(text, changed, dropped) for text in texts]


@unhurried
@given(objects(), st.text(LETTERS, max_size=2), EDITED)
def test_a_step_that_adds_a_field_leaves_all_others_as_they_stand(
    made: tuple[bytes, Any], name: str, value: Any
) -> None:
    text, parts = made
    assume(name not in [one for one, _, _ in parts])
    before = read_document(text)
    changed, dropped = changes(before, {**copied(before), name: value})
    assert (list(changed), dropped) == ([name], [])
    after = splice(text, changed, dropped)
    assert after.startswith(text.rstrip()[:-1].rstrip())
    assert after.endswith(text[text.rindex(b"}") :])


@unhurried
@given(objects())
def test_what_orjson_takes_is_taken(made: tuple[bytes, Any]) -> None:
    """The other way round is held by the table of texts that must be refused."""
    text, _ = made
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    read_document(text)
