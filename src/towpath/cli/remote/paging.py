"""Lists that are longer than one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from towpath.cli.remote.server import Server

MOST_AT_ONCE = 1_000  # that the API answers


@dataclass(frozen=True)
class Page:
    """What was found, and where to go on."""

    items: list[Any]
    next: Any


def paged(server: Server, path: str, query: Mapping[str, Any], limit: int | None, by: str, start: Any) -> Page:
    """As many as wanted; all, if that is not said."""
    found: list[Any] = []
    cursor = start
    while True:
        some = MOST_AT_ONCE if limit is None else min(MOST_AT_ONCE, limit - len(found))
        answer = server.look(path, {**query, "limit": some, by: cursor})
        found += answer["items"]
        cursor = answer.get("next")
        if cursor is None or (limit is not None and len(found) >= limit):
            return Page(found, cursor)
