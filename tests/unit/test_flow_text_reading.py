"""What is read as a record and what is refused, with the code, the reason and the place.

The tables follow the well-known sorting of JSON texts: `y` must be accepted, `n` must be refused, and for `i` RFC 8259
leaves the choice to whoever reads.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.sweep import sweep

from towpath.flow.documents import MAX_DEPTH, Unreadable, read_document, read_documents
from towpath.flow.failures import ErrorCode

# Texts of one value each, which stand in a record as {"v": ...}.
MUST_ACCEPT: dict[str, bytes] = {
    "array_empty": b"[]",
    "array_with_spaces": b"[ 1 , 2 ]",
    "array_of_several_types": b'[null, 1, "1", {}]',
    "array_with_newline": b"[1\n]",
    "array_ending_in_tab": b"[1]\t",
    "array_of_nulls": b"[1,null,null,2]",
    "number_zero": b"0",
    "number_minus_zero": b"-0",
    "number_negative": b"-123",
    "number_0e1": b"0e1",
    "number_0e_plus_1": b"0e+1",
    "number_real": b"123.456789",
    "number_capital_e": b"1E22",
    "number_capital_e_minus": b"1E-2",
    "number_capital_e_plus": b"1E+2",
    "number_fraction_exponent": b"123.456e78",
    "number_close_to_zero": b"-0.000000000000000000000000000000000000000000000000000000000000000000000000000001",
    "object_empty": b"{}",
    "object_empty_key": b'{"":0}',
    "object_nested": b'{"a":{"b":{"c":[]}}}',
    "object_nul_in_key": b'{"foo\\u0000bar":42}',
    "object_long_strings": b'{"x":"' + b"x" * 5000 + b'"}',
    "object_same_key_in_two_objects": b'[{"a":1},{"a":2},{"b":{"a":3}}]',
    "object_key_that_looks_like_two": b'{"a\\":":1,"a":2}',
    "string_all_escapes": b'"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    "string_escaped_nul": b'"\\u0000"',
    "string_escaped_noncharacter": b'"\\uFFFF"',
    "string_unescaped_noncharacter": b'"\xef\xbf\xbf"',
    "string_surrogate_pair": b'"\\uD834\\uDD1E"',
    "string_surrogate_pairs": b'"\\ud83d\\ude39\\ud83d\\udc8d"',
    "string_last_code_point": b'"\xf4\x8f\xbf\xbf"',
    "string_line_separators": b'"\xe2\x80\xa8\xe2\x80\xa9"',
    "string_delete": b'"\x7f"',
    "string_utf8": '"€𝄞é"'.encode(),
    "string_comment_inside": b'"a/*b*/c"',
    "string_colons_and_quotes": b'"\\":\\":, \\" : "',
    "string_backslash_at_end": b'"a\\\\"',
    "string_bom_inside": b'"\xef\xbb\xbf"',
    "true": b"true",
    "false": b"false",
    "null": b"null",
    "whitespace_all_kinds": b" \t\n\r1 \t\n\r",
}

MUST_REFUSE: dict[str, bytes] = {
    "array_1_true_without_comma": b"[1 true]",
    "array_colon": b'["": 1]',
    "array_comma_after_close": b'[""],',
    "array_comma_first": b"[,1]",
    "array_double_comma": b"[1,,2]",
    "array_extra_comma": b"[1,]",
    "array_just_comma": b"[,]",
    "array_missing_value": b"[   , 1]",
    "array_unclosed": b"[1",
    "array_spelt_undefined": b"[undefined]",
    "array_form_feed": b"[\x0c1]",
    "array_vertical_tab": b"[\x0b1]",
    "array_no_break_space": b"[\xc2\xa01]",
    "number_plus": b"+1",
    "number_leading_zero": b"012",
    "number_minus_leading_zero": b"-012",
    "number_dot_first": b".5",
    "number_minus_dot": b"-.5",
    "number_dot_last": b"1.",
    "number_dot_exponent": b"1.e3",
    "number_empty_exponent": b"1e",
    "number_empty_signed_exponent": b"1e+",
    "number_two_exponents": b"1eE2",
    "number_fraction_of_exponent": b"1e1.5",
    "number_hex": b"0x1F",
    "number_infinity": b"Infinity",
    "number_minus_infinity": b"-Infinity",
    "number_inf": b"inf",
    "number_nan": b"NaN",
    "number_minus_nan": b"-NaN",
    "number_just_minus": b"-",
    "number_two_minus": b"--1",
    "number_space_inside": b"1 000",
    "number_underscore": b"1_000",
    "number_full_width_digit": "１".encode(),
    "number_expression": b"1+2",
    "number_double_huge_then_bad": b"1e400x",
    "object_bad_value": b'{"x": truth}',
    "object_bracket_key": b'{[: "x"}',
    "object_comma_instead_of_colon": b'{"x", null}',
    "object_double_colon": b'{"x"::"b"}',
    "object_single_quotes": b"{'a':0}",
    "object_unquoted_key": b"{a: 1}",
    "object_number_key": b"{1:1}",
    "object_null_key": b"{null:1}",
    "object_trailing_comma": b'{"id":0,}',
    "object_two_trailing_commas": b'{"id":0,,}',
    "object_missing_colon": b'{"a" "b"}',
    "object_missing_value": b'{"a":}',
    "object_garbage_at_end": b'{"a":"a" 123}',
    "object_with_comment": b'{"a":1/*x*/}',
    "object_with_line_comment": b'{"a":1}//x\n',
    "object_with_hash_comment": b'{"a":1}#',
    "object_unclosed": b'{"a":1',
    "string_1_surrogate_then_escape": b'"\\uD800\\"',
    "string_bad_escape": b'"\\x00"',
    "string_bad_unicode_escape": b'"\\u00A"',
    "string_capital_unicode_escape": b'"\\U0041"',
    "string_escaped_emoji": b'"\\\xf0\x9f\x8c\x80"',
    "string_unescaped_newline": b'"new\nline"',
    "string_unescaped_tab": b'"\t"',
    "string_unescaped_nul": b'"a\x00a"',
    "string_unescaped_unit_separator": b'"\x1f"',
    "string_single_quote": b"'a'",
    "string_unclosed": b'"abc',
    "string_just_quote": b'"',
    "string_no_quotes": b"abc",
    "word_true_capital": b"True",
    "word_cut_off": b"nul",
    "word_too_long": b"nulls",
    "nothing": b"",
    "only_space": b" ",
    "two_values": b"1 2",
    "utf8_invalid_byte": b'"\xff"',
    "utf8_lone_continuation": b'"\x81"',
    "utf8_cut_off": b'"\xe0\x80"',
    "utf8_overlong_slash": b'"\xc0\xaf"',
    "utf8_overlong_nul": b'"\xc0\x80"',
    "utf8_overlong_six_bytes": b'"\xfc\x83\xbf\xbf\xbf\xbf"',
    "utf8_encoded_surrogate": b'"\xed\xa0\x80"',
    "utf8_beyond_unicode": b'"\xf4\x90\x80\x80"',
    "utf8_in_key": b'{"\xe9":1}',
    "latin_1": '"é"'.encode("latin-1"),
}

# What RFC 8259 leaves open, and what is done about it here: a value is read, or None for refused.
LEFT_OPEN: dict[str, tuple[bytes, Any]] = {
    "number_huge_exponent": (b"0.4e00669999999999999999999999999999999999999999999969999999006", None),
    "number_too_big_for_double": (b"1e400", Decimal("1e400")),
    "number_too_small_for_double": (b"123e-10000000", Decimal("123e-10000000")),
    "number_very_negative": (b"-1e9999", Decimal("-1e9999")),
    "number_integer_beyond_64_bits": (b"100000000000000000000", 100000000000000000000),
    "number_integer_of_u64": (b"18446744073709551615", 18446744073709551615),
    "number_too_many_digits": (b"0.1000000000000000055", Decimal("0.1000000000000000055")),
    "number_zero_of_huge_exponent": (b"0e99999999999999999999999", 0.0),
    "number_integer_beyond_python": (b"1" * 4301, None),
    "object_repeated_key": (b'{"a":"b","a":"c"}', None),
    "object_repeated_key_and_value": (b'{"a":"b","a":"b"}', None),
    "string_first_surrogate_alone": (b'"\\uDADA"', None),
    "string_second_surrogate_alone": (b'"\\uDd1e"', None),
    "string_surrogates_reversed": (b'"\\uDd1e\\uD834"', None),
    "string_surrogate_and_other": (b'"\\uD888\\u1234"', None),
    "key_surrogate_alone": (b'{"\\uDFAA":0}', None),
}


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
DOCUMENTED = re.compile(r"^\| `(\S.*?)` \| (7|8|read as `(.+?)`) \|", re.MULTILINE)


def record(value: bytes) -> bytes:
    return b'{"v":' + value + b"}"


def code_of(text: bytes | None, **options: Any) -> ErrorCode:
    with pytest.raises(Unreadable) as caught:
        read_document(text, **options)
    return caught.value.code


@sweep("name", MUST_ACCEPT)
def test_valid_texts_are_read(name: str) -> None:
    assert "v" in read_document(record(MUST_ACCEPT[name]))


@sweep("name", MUST_REFUSE)
def test_invalid_texts_are_refused_as_not_json(name: str) -> None:
    assert code_of(record(MUST_REFUSE[name])) is ErrorCode.NOT_JSON


@sweep("name", MUST_REFUSE)
def test_a_number_beyond_double_does_not_excuse_the_rest(name: str) -> None:
    """Such texts are read by another parser, which must be as strict."""
    assert code_of(b'{"big":1e400,"v":' + MUST_REFUSE[name] + b"}") is ErrorCode.NOT_JSON


@pytest.mark.parametrize("name", LEFT_OPEN)
def test_what_the_standard_leaves_open(name: str) -> None:
    text, value = LEFT_OPEN[name]
    if value is None:
        assert code_of(record(text)) is ErrorCode.NOT_JSON
    else:
        found = read_document(record(text))["v"]
        assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "text", [b'{"a":1}{"b":2}', b'{"a":1} x', b'{"a":1}\x00', b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b"{}]"]
)
def test_one_object_and_nothing_around_it(text: bytes) -> None:
    assert code_of(text) is ErrorCode.NOT_JSON


@pytest.mark.parametrize("text", [b"[]", b"null", b"1", b'"a"', b"true", b"1e400", b' [{"a":1,"a":2}] '])
def test_valid_json_that_is_no_object_is_no_record(text: bytes) -> None:
    assert code_of(text) is ErrorCode.NOT_VALID


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"a":1,"a":2}', "byte 7"),
        (b'{"a":1,\n"a" : 2}', "line 2 (byte 8)"),
        (b'{"a":1,"\\u0061":2}', "byte 7"),
        (b'{"x":[{"a":1,"b":{"c":1,"c":2}}]}', "byte 24"),
        (b'{"a":"\\u0022:","a":"\\":"}', "byte 15"),
        (b'{"a":"\\u0022:","b":{"a":1},"a":"x"}', "byte 27"),
        (b'{"a":1e400,"a":1}', "byte 11"),
        (b'{"":1,"":2}', "byte 6"),
    ],
)
def test_a_repeated_name_is_refused_wherever_it_stands(text: bytes, place: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_document(text)
    assert caught.value.code is ErrorCode.NOT_JSON
    assert place in str(caught.value)
    assert read_document(text, duplicates="keep")


def test_a_repeated_name_that_is_kept_reads_as_the_last() -> None:
    assert read_document(b'{"a":1,"b":0,"a":2}', duplicates="keep") == {"a": 2, "b": 0}
    assert read_document(b'{"a":1e400,"a":2.50}', duplicates="keep") == {"a": 2.5}


def test_nesting_ends_where_it_could_not_be_written_again() -> None:
    def deep(levels: int, core: bytes = b"1") -> bytes:
        return b'{"a":' * levels + core + b"}" * levels

    assert read_document(deep(MAX_DEPTH))
    assert read_document(deep(MAX_DEPTH, b"1e400"))
    for text in (deep(MAX_DEPTH + 1), deep(MAX_DEPTH + 1, b"1e400"), deep(5000), b"[" * 100_000, deep(900, b"1e400")):
        with pytest.raises(Unreadable, match=f"{MAX_DEPTH} .* line 1"):
            read_document(text)


def test_size_is_looked_at_before_anything_else() -> None:
    assert code_of(b"x" * 11, max_bytes=10) is ErrorCode.RECORD_TOO_BIG
    assert read_document(b'{"a": "bc"}'[:11], max_bytes=11)


def test_a_batch_keeps_its_places() -> None:
    documents, failures = read_documents([b'{"a":1}', None, b"{", b"[1]", b'{"b":2}'], step="clicks")
    assert documents == [{"a": 1}, None, None, None, {"b": 2}]
    assert {row: (failure.code, failure.step) for row, failure in failures.items()} == {
        1: (ErrorCode.NOT_JSON, "clicks"),
        2: (ErrorCode.NOT_JSON, "clicks"),
        3: (ErrorCode.NOT_VALID, "clicks"),
    }
    assert "tombstone" in failures[1].message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":\n NaN}', "line 2, column 2 (character 7)"),
        (b'{"a":"x\xffy"}', "not UTF-8: invalid start byte at line 1 (byte 7)"),
        (b'{"a":"\\ud800"}', "cannot be written in UTF-8"),
        (b'{"a":1e400,}', "byte 11"),
    ],
)
def test_messages_say_what_and_where(text: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_document(text)
    assert message in str(caught.value)


def test_messages_are_bounded() -> None:
    name = b"n" * 100_000
    _, failures = read_documents([b'{"' + name + b'":1,"' + name + b'":2}', b'{"a":1' + b"0" * 90_000 + b"x}"])
    assert all(len(failure.message) <= 1_000 for failure in failures.values())
    assert len(failures) == 2


def test_one_cause_has_one_fingerprint() -> None:
    _, failures = read_documents([b'{"a":1,"a":2}', b'{"b":{},"c":1,"c":2}'])
    assert len({failure.fingerprint for failure in failures.values()}) == 1


@sweep(("text", "outcome", "value"), DOCUMENTED.findall(PAGE.read_text(encoding="utf-8")))
def test_the_reference_page_says_what_happens(text: str, outcome: str, value: str) -> None:
    if value:
        assert repr(read_document(text.encode())) == value
    else:
        assert code_of(text.encode()) == int(outcome)


@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        (b'["towpath-refused",{"rule":"fields","message":"line 17: 3, not 4"},"a,b,c"]', "fields", "line 17: 3, not 4"),
        (b'["towpath-refused",{"rule":"fields"},"a,b,c"]', "not an object", "array"),
        (b'["refused",{"rule":"fields","message":"m"},"a"]', "not an object", "array"),
        (b'["towpath-refused",{"rule":7,"message":"m"},"a"]', "not an object", "array"),
        (b'["towpath-refused"]', "not an object", "array"),
    ],
)
def test_a_line_that_was_refused_before_says_by_which_rule(text: bytes, rule: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as refused:
        read_document(text)
    assert (refused.value.code, refused.value.rule) == (ErrorCode.NOT_VALID, rule)
