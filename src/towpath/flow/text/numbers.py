"""Numbers as they stand in the text: none is read as another number than the one that was written."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any

import msgspec

# A decimal of up to 15 digits and no exponent comes back from a double as it was.
_SAFE_CHARACTERS = 16

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def exact(text: bytes) -> Any:
    """The document of a text, its numbers exact: int of any size, float where it is the same number, else Decimal."""
    return _EXACT.decode(text)


def has_beyond_double(text: bytes) -> bool:
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
