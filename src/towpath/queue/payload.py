"""What may be sent: JSON that both databases can hold, and names that people can read."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any
from uuid import UUID

from towpath.errors import BadName, BadPayload, BadValue, UnknownMessage

LONGEST_NAME = 200

_NAME = re.compile(rf"[^\s\x00-\x1f\x7f]{{1,{LONGEST_NAME}}}")
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=True).encode


def to_json(value: Any, max_bytes: int, what: str = "payload") -> str:
    """The value as JSON text, or `BadPayload` with the reason."""
    try:
        text = _encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise BadPayload(f"the {what} holds an unpaired surrogate at {error.start}: not valid Unicode") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise BadPayload(f"the {what} is not JSON: {error}") from error
    if "\\u0000" in text and holds_nul(value):
        raise BadPayload(f"the {what} holds a NUL character; replace it or encode the bytes, for example as base64")
    if size > max_bytes:
        raise BadPayload(
            f"the {what} has {size:,} bytes, the limit is {max_bytes:,} (setting queue.max_payload_bytes); "
            "send a reference to where the data lies instead"
        )
    return text


def from_json(text: str, what: str = "payload") -> Any:
    """The value of JSON text typed by a person, or `BadPayload` with the place of the mistake."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"the {what} is not JSON: {error}") from error


def holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\x00" in value
        case dict():
            return any(holds_nul(key) or holds_nul(inner) for key, inner in value.items())
        case list() | tuple():
            return any(map(holds_nul, value))
    return False


def check_name(name: object, what: str) -> str:
    """The name if it is one, or `BadName`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadName(
            f"{name!r} is not a usable {what}: 1 to {LONGEST_NAME} characters without spaces or control characters"
        )
    return name


def check_seconds(value: float | None, what: str) -> float | None:
    """A duration that is a finite number above zero, or none."""
    if value is None:
        return None
    if not 0 < value < 1e10:
        raise BadValue(f"{what}={value!r} must be a number of seconds above 0")
    return float(value)


def check_id(message_id: str) -> str:
    """The id if it could be one; otherwise no message can have it."""
    try:
        return str(UUID(message_id))
    except (ValueError, AttributeError, TypeError) as error:
        raise UnknownMessage(str(message_id)) from error


def new_id() -> str:
    """A UUID of version 7: its first part grows with time, so that new ids go to the end of the index."""
    tail = int.from_bytes(os.urandom(10), "big")
    variant = (tail & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000
    text = f"{time.time_ns() // 1_000_000:012x}7{tail >> 68:03x}{variant:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
