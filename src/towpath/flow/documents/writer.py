"""Python values to JSON text, one at a time or a column at a time.

What JSON cannot hold raises `Unwritable`; it never becomes something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any

import msgspec
import orjson

# A dataclass could hide a NaN, which orjson would write as null.
_AS_GIVEN = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_LARGEST = (1 << 64) - 1
_SMALLEST = -(1 << 63)

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


def write(value: Any) -> bytes:
    """The JSON text of a value. Also ints of any size, Decimals (as numbers), dates and times (ISO 8601, `Z`)."""
    try:
        text = orjson.dumps(value, _other, _AS_GIVEN)
    except TypeError as error:
        text = _written_slowly(value, error)
    if b"null" in text and value is not None and not _is_finite(value):
        raise Unwritable("NaN and infinity have no place in JSON")
    return text


def write_column(values: Sequence[Any]) -> tuple[list[bytes], dict[int, Unwritable]]:
    """The JSON texts of a column's values, and which rows cannot be written; their texts are empty."""
    try:
        # Many small texts are dear; one large one, cut up, is cheap.
        return list(map(bytes, _ELEMENTS.decode(write(list(values))))), {}
    except (Unwritable, RecursionError):
        return _written_one_by_one(values)


class Unwritable(TypeError):
    """A value that JSON cannot hold: bytes, NaN, infinity, half a surrogate pair, an object of a program's own."""


def _written_slowly(value: Any, error: TypeError) -> bytes:
    """Once more, with the ints that orjson does not take as ready texts."""
    try:
        return orjson.dumps(_with_ready_ints(value), _other, _AS_GIVEN)
    except RecursionError:
        raise Unwritable("nested too deeply to be written") from None
    except TypeError as again:
        raise Unwritable(str(again.__cause__ or again)) from error


def _other(value: Any) -> Any:
    """What orjson cannot write by itself."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise Unwritable("NaN and infinity have no place in JSON")
        return orjson.Fragment(str(value))
    if isinstance(value, float):
        return float(value)  # numpy's
    if isinstance(value, datetime) and value == value:  # pandas' NaT is a datetime that is not itself
        return _iso(value)
    if isinstance(value, date | time) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        raise Unwritable("bytes have no place in JSON; decode them, or encode them as base64")
    raise Unwritable(f"{type(value).__qualname__} has no place in JSON")


def _with_ready_ints(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_ready_ints(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_ready_ints(inner) for inner in value]
    if type(value) is int and not _SMALLEST <= value <= _LARGEST:
        return orjson.Fragment(format(Decimal(value), "f"))
    return value


def _iso(value: datetime) -> str:
    """A time in UTC with `Z`; one without a zone is written without one."""
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _is_finite(value: Any) -> bool:
    """Whether no NaN and no infinity lies in a value."""
    if isinstance(value, Enum):
        return _is_finite(value.value)
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return True


def _written_one_by_one(values: Iterable[Any]) -> tuple[list[bytes], dict[int, Unwritable]]:
    texts, errors = [], {}
    for row, value in enumerate(values):
        try:
            texts.append(write(value))
        except Unwritable as error:
            texts.append(b"")
            errors[row] = error
    return texts, errors
