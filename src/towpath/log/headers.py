"""Headers as text for a database column: readable where they are text, exact where they are not."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from towpath.log.record import Headers

_NUL = "\\u0000"  # as JSON has it; SQLite's text functions end at a NUL


def encode_headers(headers: Headers) -> str | None:
    """`[["type","click"],["signature",{"base64":"…"}],["nothing",null]]`, or None when there are none."""
    if not headers:
        return None
    try:
        text = orjson.dumps([(name, value.decode()) for name, value in headers]).decode()  # type: ignore[union-attr]
        if _NUL not in text:
            return text
    except (UnicodeDecodeError, AttributeError):
        pass  # not text, or none at all
    return orjson.dumps([(name, _encode(value)) for name, value in headers]).decode()


def decode_headers(text: str | None) -> Headers:
    if text is None:
        return ()
    pairs: list[tuple[str, Any]] = orjson.loads(text)
    try:
        return tuple([(name, value.encode()) for name, value in pairs])
    except AttributeError:
        return tuple([(name, _decode(value)) for name, value in pairs])


def _encode(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
    return {"base64": base64.b64encode(value).decode()} if "\0" in text else text


def _decode(value: Any) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
