"""Topics, the names of topics and groups, and the retention of a new topic.

Groups whose names begin with `__` belong to the log: producers and copies keep their progress there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.errors import BadName, BadValue, UnknownPartition

if TYPE_CHECKING:
    from towpath.settings import LogSettings

MOST_PARTITIONS = 10_000
OFFSET_BITS = 40  # of a record's place in a SQLite file; the bits above are its partition
NEVER = "never"  # a retention: records are kept until somebody deletes them
LONGEST_S = 1000 * 366 * 86400.0  # of a retention
OWN = "__"  # how names of the log's own groups begin
COPY = f"{OWN}copy."
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


def check_topic_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise BadName(f"{name!r} is not a topic name: 1 to 249 letters, digits, dots, underscores and hyphens of ASCII")


def check_group(name: str) -> str:
    if not 0 < len(name) <= 249 or not name.isascii() or not name.isprintable():
        raise BadName(f"{name!r} is not a name of a group or producer: 1 to 249 printable ASCII characters")
    return name


def check_partition_count(count: int) -> int:
    if not 1 <= count <= MOST_PARTITIONS:
        raise BadValue(f"a topic has 1 to {MOST_PARTITIONS} partitions, not {count!r}")
    return count


def check_user_group(name: str) -> str:
    check_group(name)
    if name.startswith(OWN) and not name.startswith(COPY):
        raise BadName(f"{name!r}: groups that begin with {OWN} are the log's own")
    return name


def sequence_group(producer: str) -> str:
    """Its position in partition 0 of a topic is how many records without a key the producer has appended there."""
    return f"{OWN}producer.{producer}"


def copy_group(source_id: str, target_id: str) -> str:
    """Its positions are in the topic copied to, but they are offsets of the topic copied from: no reader's."""
    return f"{COPY}{source_id}.{target_id}"


def chosen_retention(wanted: float | str | None, settings: LogSettings) -> float | None:
    """The age at which records of a new topic are deleted; None: never."""
    if wanted is None:
        return settings.retention_s
    if wanted == NEVER:
        return None
    if isinstance(wanted, str) or not 0 < wanted <= LONGEST_S:
        raise BadValue(f"a retention is a number of seconds above 0, at most 1000 years, or {NEVER!r}, not {wanted!r}")
    return float(wanted)
