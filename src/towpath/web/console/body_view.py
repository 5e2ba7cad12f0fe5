"""Bodies of records for people: JSON over several lines with every number as it is, text, or bytes as hexadecimal.

A body may hold anything. What is not what it seems is shown as it came: one with a name twice, which no JSON reader
would show, or with characters that cannot be written. Characters that are not seen, or that turn a text around, are
named.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from towpath.exact_json import Exact, to_json
from towpath.web.console.filters import hexdump

SHOWN_BYTES = 64 << 10
HEX_BYTES = 4 << 10

# Control characters but tab and line ends, what turns the direction of writing, and what has no width.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class BodyView:
    """How a body is shown."""

    kind: str  # "JSON", "text" or "bytes"
    text: str
    size: int
    is_cut: bool = False
    raw: str | None = None  # byte for byte, when `text` is laid out


def body_view(value: bytes) -> BodyView:
    """For a page."""
    size = len(value)
    cut = value[:SHOWN_BYTES]
    try:
        text = cut.decode(errors="strict" if len(cut) == size else "ignore")
        value.decode()
    except UnicodeDecodeError:
        return BodyView("bytes", hexdump(value, HEX_BYTES), size, size > HEX_BYTES)
    if len(cut) < size:
        return BodyView("text", visible(text), size, is_cut=True)
    laid_out = laid_out_json(text)
    if laid_out is None:
        return BodyView("text", visible(text), size)
    raw = None if laid_out == text else visible(text)
    return BodyView("JSON", visible(laid_out), size, raw=raw)


def laid_out_json(text: str) -> str | None:
    """JSON over several lines that says the same as the text; none: it is not JSON, or would not say the same."""
    try:
        found = json.loads(
            text, parse_int=Exact, parse_float=Exact, parse_constant=_no_constant, object_pairs_hook=_once
        )
        shown = to_json(found, indent="  ")
        shown.encode()
    except (ValueError, RecursionError):
        return None
    return shown


def visible(text: str) -> str:
    """With what nobody would see named: `⟨U+202E⟩`."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def key_text(key: bytes | None) -> str:
    """The key of a record."""
    if key is None:
        return "none"
    try:
        return visible(key.decode())
    except UnicodeDecodeError:
        return key[:64].hex(" ")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
