"""The fields of a record by their paths, and their values as texts that can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson

DEPTH = 3  # objects within objects that are looked into
FIELDS = 60  # of a record; what comes after these is not looked at
TOKEN_BYTES = 200
NAME_CHARACTERS = 100

Scalar = str | int | float | bool | None
Flat = dict[str, Scalar]  # by path, such as `address.city`

# What people and programs write where they have nothing to write.
_NOTHING = frozenset({"", "-", "--", "?", "n/a", "na", "nan", "nil", "none", "null", "tbd", "unknown", "undefined"})


def flattened(document: Mapping[str, Any]) -> Flat:
    """All fields with plain values. Lists are left out, and names that would not be parts of paths."""
    flat: Flat = {}
    _collect(document, "", DEPTH, flat)
    return flat


def _collect(document: Mapping[str, Any], before: str, depth: int, flat: Flat) -> None:
    for name, value in document.items():
        if len(flat) >= FIELDS or not _is_part(name):
            continue
        if isinstance(value, Mapping):
            if depth > 1:
                _collect(value, f"{before}{name}.", depth - 1, flat)
        elif value is None or isinstance(value, str | int | float | bool):
            flat[before + name] = value
        elif isinstance(value, Decimal):
            flat[before + name] = float(value)


def _is_part(name: str) -> bool:
    """Whether a name can be a part of a path."""
    return 0 < len(name) <= NAME_CHARACTERS and name.isprintable() and "." not in name and "," not in name


def token(value: Scalar) -> str | None:
    """A value as it is counted: its JSON, so that `1` and `"1"` differ; None for what is too long or cannot be."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    return text.decode() if len(text) <= TOKEN_BYTES else None


def value_of(token: str) -> Scalar:
    """The value that a token stands for."""
    value: Scalar = orjson.loads(token)
    return value


def is_nothing(value: Scalar) -> bool:
    """Whether a field says nothing: it is missing, empty, or says so in words."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def type_of(value: Scalar) -> str:
    """What the value is in JSON; integers are told from other numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"
