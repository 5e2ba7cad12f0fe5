"""Headers as text for a database column: readable where they are text, exact where they are not."""

from __future__ import annotations

import base64
import json
from typing import Any

from towpath.log.record import Headers


def encode_headers(headers: Headers) -> str | None:
    """`[["type", "click"], ["signature", {"base64": "…"}], ["nothing", null]]`, or None when there are none."""
    if not headers:
        return None
    return json.dumps([[name, _encode(value)] for name, value in headers], ensure_ascii=False)


def decode_headers(text: str | None) -> Headers:
    if text is None:
        return ()
    return tuple((name, _decode(value)) for name, value in json.loads(text))


def _encode(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
    # SQLite's text functions end at a NUL.
    return {"base64": base64.b64encode(value).decode()} if "\0" in text else text


def _decode(value: Any) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
