"""Times as commands print them. The API writes UTC as `Z` in most of its answers, a command as `+00:00`."""

from __future__ import annotations

import re
from typing import Any

_ZULU = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
NAMES = frozenset({"at", "since", "until", "first_due", "last_due"})
THEIRS = frozenset(
    {"payload", "headers", "fields", "facts", "data", "value", "template", "rules"}
)  # not ours to change


def is_time(name: str) -> bool:
    return name.endswith("_at") or name in NAMES


def spelled(value: Any) -> Any:
    """An answer with its times as a command prints them; what people have sent stays as it is."""
    if isinstance(value, list):
        return [spelled(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _part(name, each) for name, each in value.items()}


def _part(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return f"{value[:-1]}+00:00" if is_time(name) and _ZULU.fullmatch(value) else value
    return value if name in THEIRS and not isinstance(value, str) else spelled(value)
