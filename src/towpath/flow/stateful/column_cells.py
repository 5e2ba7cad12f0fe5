"""Columns of records as values: what they are compared by, and when they happened. Pure.

Numbers are compared as numbers, so 1 is 1.0 and 1e0; texts as texts, so 1 is not "1". A key or a header of a record is
a text. Whole numbers of 64 bits are exact, others are what a double makes of them. Null, objects and lists are equal to
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from towpath.flow.stateful.record_part import Field, Header, Key, RecordPart, whole_number
from towpath.flow.text.kind import Misfit
from towpath.flow.text.times import Time
from towpath.log.record import Headers

_LAST_MS = 253_402_300_799_999  # of the year 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = Time()
_encode = msgspec.msgpack.encode


def cell(part: RecordPart, document: Any, key: bytes | None, headers: Headers) -> Any:
    """The value of a part of a record; None where it has none."""
    match part:
        case Key():
            return key
        case Header(name):
            values = [value for called, value in headers if called == name]
            return values[-1] if values else None
        case Field(names):
            for name in names:
                if not isinstance(document, Mapping) or name not in document:
                    return None
                document = document[name]
            return document


def join_key(cells: Sequence[Any]) -> bytes | None:
    """What records are known by that belong together; None: one of the columns is equal to nothing."""
    found = [_comparable(value) for value in cells]
    return None if None in found else _encode(found)


def _comparable(value: Any) -> str | bytes | None:
    match value:
        case bool():
            return b"true" if value else b"false"
        case int():
            return b"%d" % value
        case float() | Decimal():
            exact = float(value)
            if exact in (float("inf"), float("-inf")):
                return None
            return b"%d" % int(exact) if exact.is_integer() else repr(exact).encode()
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return b"bytes " + value
    return None


def event_ms(value: Any, name: str) -> int:
    """The time in a cell: milliseconds since 1970, or a text as RFC 3339 has it; `ValueError` says why it is none."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    text = float(text) if isinstance(text, Decimal) else text
    if isinstance(text, str):
        number = whole_number(text.encode())
        found = _read(text, name) if number is None else number
    elif isinstance(text, int | float) and not isinstance(text, bool) and text == text // 1:
        found = int(text)
    elif text is None:
        raise ValueError(f"the record has no {name}, by which its time is known")
    else:
        raise ValueError(f"{name} is no time: milliseconds since 1970, or a text like 2024-05-06T07:08:09Z")
    if not -_LAST_MS <= found <= _LAST_MS:
        raise ValueError(f"{name} is no time: {found} ms are beyond the year 9999")
    return found


def _read(text: str, name: str) -> int:
    try:
        return (_TIME.fit(text, name) - _EPOCH) // timedelta(milliseconds=1)
    except Misfit as error:
        raise ValueError(str(error)) from None
