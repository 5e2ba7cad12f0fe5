"""Topics: a name, an identity, and partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from towpath.errors import BadName, BadValue, UnknownPartition

MOST_PARTITIONS = 10_000
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # what Kafka allows


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. One that was deleted and made again has the same name and another id."""

    name: str
    id: str
    partitions: int
    retention_s: float | None  # None: records are kept until somebody deletes them

    def check_partition(self, partition: int) -> None:
        if not 0 <= partition < self.partitions:
            raise UnknownPartition(self.name, partition, self.partitions)


def check_topic_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise BadName(f"{name!r} is not a topic name: 1 to 249 letters, digits, dots, underscores and hyphens of ASCII")
    return name


def check_group(name: str) -> str:
    if not 0 < len(name) <= 249 or not name.isascii() or not name.isprintable():
        raise BadName(f"{name!r} is not a name of a group or producer: 1 to 249 printable ASCII characters")
    return name


def check_partition_count(count: int) -> int:
    if not 1 <= count <= MOST_PARTITIONS:
        raise BadValue(f"a topic has 1 to {MOST_PARTITIONS} partitions, not {count!r}")
    return count
