"""JSON that both databases take: errors of users' code come with whatever characters were in the record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from towpath.db.text import storable

_SUSPECT = ("\\u0000", "\\ud")  # NUL, and surrogates that may be unpaired


def to_stored(value: Any) -> str:
    """The value as JSON text, with what PostgreSQL refuses in a text spelled out."""
    text = json.dumps(value, allow_nan=False)
    return json.dumps(_storable(value), allow_nan=False) if any(each in text for each in _SUSPECT) else text


def _storable(value: Any) -> Any:
    match value:
        case str():
            return storable(value)
        case Mapping():
            return {storable(str(name)): _storable(each) for name, each in value.items()}
        case list() | tuple():
            return [_storable(each) for each in value]
    return value
