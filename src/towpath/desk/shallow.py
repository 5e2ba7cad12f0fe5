"""Bodies as documents, as far as they can be written again: what can be read may be nested deeper than that. Pure."""

from __future__ import annotations

from typing import Any

import orjson

DEPTH = 254  # that can be written; four times as deep can be read
UNREADABLE = None


def read_shallow(body: bytes) -> Any:
    """What the body says; None also for what is no JSON, or is nested too deep to be taken apart."""
    try:
        document = orjson.loads(body)
        if body.count(b"[") + body.count(b"{") >= DEPTH:  # only then it may be
            orjson.dumps(document)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return UNREADABLE
    return document
