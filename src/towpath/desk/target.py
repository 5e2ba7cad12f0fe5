"""Where the relay puts what goes out."""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """The topic to which a row of the outbox is appended."""

    LANE = "lane"  # the flow's lane topic, to wait
    REENTRY = "reentry"  # back to the stage in which it has failed
    SOURCE = "source"  # the topic it came from, as a new record
