"""What is measured, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What can be measured alone."""

    LISTS = "lists"
    SEEN = "seen"
    CROWD = "crowd"


class Store(StrEnum):
    """Where everything lives."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


TITLES = {Store.SQLITE: "SQLite, topics in the same file", Store.POSTGRES: "PostgreSQL, topics in SQLite"}


@dataclass(frozen=True)
class Plan:
    """A short run proves that all works, not how fast."""

    parts: tuple[Part, ...]
    stores: tuple[Store, ...]
    cases: int
    messages: int
    events: int
    times: int  # that a page is asked for
    seen: int  # messages that are looked for on a page
    crowd_s: float
