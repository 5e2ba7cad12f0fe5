"""Reads the values of a topic as documents, strictly: each is one JSON object as RFC 8259 has it.

No number is read as another number than the one that stands in the text.

What costs time is done only where it is needed. A text that orjson writes back as it was, white space aside, has no
name twice (one of them would be missing) and only numbers that a double holds. Only other texts are looked at closer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any, Literal

import msgspec
import orjson

from towpath.flow.documents.splice import SPACE, first_repeated, offset_of_depth
from towpath.flow.documents.writer import Unwritable, write
from towpath.flow.failures import ErrorCode, RecordFailure, bounded

# A decimal of up to 15 digits and no exponent comes back from a double as it was.
_SAFE_CHARACTERS = 16

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")

MAX_DEPTH = 254  # what orjson writes; a document that could not be written again is not taken
MAX_RECORD_BYTES = 1 << 20
# `["towpath-refused", {"rule": …, "message": …}, "the text"]`: no document, so it fails in every flow, and is a case.
REFUSED = "towpath-refused"

_NAME_CHARACTERS = 100

Document = dict[str, Any]
Duplicates = Literal["refuse", "keep"]


def read_documents(
    values: Sequence[bytes | None],
    *,
    max_bytes: int = MAX_RECORD_BYTES,
    duplicates: Duplicates = "refuse",
    step: str = "read",
) -> tuple[list[Document | None], dict[int, RecordFailure]]:
    """The documents of a batch, None where a value is refused, and why, by its place in the batch."""
    documents: list[Document | None] = []
    failures: dict[int, RecordFailure] = {}
    loads, dumps = orjson.loads, orjson.dumps
    for row, text in enumerate(values):
        # Nearly all are good and written as orjson would write them: for these there is nothing else to find out.
        if text is not None and len(text) <= max_bytes:
            try:
                document = loads(text)
                if type(document) is dict and dumps(document) == text:
                    documents.append(document)
                    continue
            except (orjson.JSONDecodeError, orjson.JSONEncodeError):
                pass  # told below, by what it is
        try:
            documents.append(read_document(text, max_bytes=max_bytes, duplicates=duplicates))
        except Unreadable as error:
            documents.append(None)
            failures[row] = RecordFailure(error.code, step, error.rule, str(error))
    return documents, failures


def read_document(
    text: bytes | None, *, max_bytes: int = MAX_RECORD_BYTES, duplicates: Duplicates = "refuse"
) -> Document:
    """The document of one value; `Unreadable` if it is none.

    With `duplicates="keep"` a name may stand twice in an object: the last one is what is read.
    """
    if text is None:
        raise Unreadable(ErrorCode.NOT_JSON, "no value", "the value is null (a tombstone); there is nothing to read")
    if len(text) > max_bytes:
        raise Unreadable(ErrorCode.RECORD_TOO_BIG, "too big", f"{len(text)} bytes; the limit is {max_bytes}")
    try:
        document = orjson.loads(text)
        written = orjson.dumps(document)
    except orjson.JSONDecodeError as error:
        document, written = _beyond_double(text, error), None
    except orjson.JSONEncodeError:
        raise _too_deep(text) from None
    if type(document) is not dict:
        _refuse_marked(document)
        raise Unreadable(ErrorCode.NOT_VALID, "not an object", f"valid JSON, but {_json_kind(document)}, not an object")
    if written == text:
        return document
    bare = text.translate(None, SPACE)
    bare_written = written.translate(None, SPACE) if written else b""
    if bare == bare_written:
        return document
    if duplicates == "refuse" and not (written and _has_as_many_names(bare, bare_written)):
        _refuse_repeated(text)
    return _exactly(text) if written else document


class Unreadable(ValueError):
    """A value that is no record. `rule` names what is not met, the text says what and where."""

    def __init__(self, code: ErrorCode, rule: str, message: str) -> None:
        super().__init__(bounded(message))
        self.code = code
        self.rule = rule


def _refuse_marked(document: object) -> None:
    """A value that was refused before it came to the log says itself by which rule and why."""
    match document:
        case [mark, {"rule": str(rule), "message": str(message)}, _] if mark == REFUSED:
            raise Unreadable(ErrorCode.NOT_VALID, bounded(rule, _NAME_CHARACTERS), message)


def _has_as_many_names(bare: bytes, bare_written: bytes) -> bool:
    """Whether no name was folded away when the text was read; False if that cannot be told by counting.

    Strings hold `":` equally often in both, unless the text spells quote, colon or space as an escape. So any
    difference comes from names that are missing in what was written.
    """
    if b"\\u002" in bare or b"\\u003" in bare:
        return False
    return bare.count(b'":') == bare_written.count(b'":')


def _refuse_repeated(text: bytes) -> None:
    if repeated := first_repeated(text):
        name, offset = repeated
        message = f'"{bounded(name, _NAME_CHARACTERS)}" stands twice in one object, again at {_place(text, offset)}'
        raise Unreadable(ErrorCode.NOT_JSON, "repeated name", message)


def _beyond_double(text: bytes, error: json.JSONDecodeError) -> Any:
    """The document of a text that orjson refuses, if it does so only for a number that no double can hold."""
    _refuse_other_encodings(text)
    if "depth" in error.msg:
        raise _too_deep(text) from None
    if not _has_beyond_double(text):
        raise _not_json(error) from None
    document = _exactly(text)
    try:
        write(document)
    except Unwritable:
        raise _too_deep(text) from None
    return document


def _exactly(text: bytes) -> Any:
    try:
        return exact(text)
    except RecursionError:
        raise _too_deep(text) from None
    except ValueError as error:
        raise Unreadable(ErrorCode.NOT_JSON, "not JSON", str(error)) from None


def _refuse_other_encodings(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        where = _place(text, error.start)
        raise Unreadable(ErrorCode.NOT_JSON, "not UTF-8", f"not UTF-8: {error.reason} at {where}") from None


def _not_json(error: json.JSONDecodeError) -> Unreadable:
    why = "; half a surrogate pair cannot be written in UTF-8" if "surrogate" in error.msg else ""
    where = f"line {error.lineno}, column {error.colno} (character {error.pos})"
    return Unreadable(ErrorCode.NOT_JSON, "not JSON", f"{error.msg}{why}, at {where}")


def _too_deep(text: bytes) -> Unreadable:
    where = _place(text, offset_of_depth(text, MAX_DEPTH))
    return Unreadable(ErrorCode.NOT_JSON, "too deep", f"nested deeper than {MAX_DEPTH} levels at {where}")


def _place(text: bytes, offset: int) -> str:
    return f"line {text.count(10, 0, offset) + 1} (byte {offset})"


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return "a string"
    return "a boolean" if isinstance(value, bool) else "a number"


def exact(text: bytes) -> Any:
    """The document of a text, its numbers exact: int of any size, float where it is the same number, else Decimal."""
    return _EXACT.decode(text)


def _has_beyond_double(text: bytes) -> bool:
    """Whether a number in the text is too big for a double; digits within strings may be taken for one, too."""
    return any(isinf(float(token)) for token in _NUMBER.findall(text))


def number(token: str) -> float | Decimal:
    """The float that prints as the same number as the token, or else the Decimal.

    `0.1`, `1e2` and `1.50` are floats. `0.1000000000000000055`, `1e400` and `1e-400` are Decimals.
    """
    value = float(token)
    if len(token) <= _SAFE_CHARACTERS and "e" not in token and "E" not in token:
        return value
    shortest = repr(value)
    if shortest == token:
        return value
    if not value and not token.lower().partition("e")[0].strip("-0."):
        return value  # a zero of whatever exponent
    try:
        written = Decimal(token)
    except InvalidOperation:
        raise ValueError(f"the exponent of {token[:40]} is beyond what can be read") from None
    return written if isinf(value) or Decimal(shortest) != written else value


_EXACT = msgspec.json.Decoder(float_hook=number)
