"""Records for programs, exact to the byte: what `towpath topic read --json` prints and the API shows.

Bytes that are UTF-8 are text; others are `{"base64": "…"}`. Headers are pairs, so that one name may come twice.
"""

from __future__ import annotations

import base64
from typing import Any

from towpath.log.record import Record


def record_item(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": spelled(record.key),
        "value": spelled(record.value),
        "headers": [[name, spelled(value)] for name, value in record.headers],
    }


def spelled(part: bytes | None) -> Any:
    """Bytes as JSON."""
    if part is None:
        return None
    try:
        return part.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(part).decode()}
