"""The topics that every flow has beside those it reads: errors, re-entries from the desk, outcomes of these, and marks.

By its marks a second attempt at a batch knows what the first has written. All are made before the first batch and kept
for ever. The re-entry topic is read from the first batch on, because what a checkpoint reads cannot be changed later.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from towpath.errors import TopicExists, UnknownTopic
from towpath.log.log import Log

FOREVER = "never"
LONGEST_NAME = 249  # characters that a log allows for a group or a producer
ONE_PARTITION = 1


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """The names of these topics."""

    errors: str
    reentry: str
    outcomes: str
    marks: str

    @classmethod
    def of(cls, flow: str, error_topic: str | None = None) -> FlowTopics:
        return cls(error_topic or f"{flow}.errors", f"{flow}.reentry", f"{flow}.outcomes", f"{flow}.marks")

    def ensure(self, log: Log, partitions: int | None = None) -> None:
        """Make those that are not there."""
        wanted = dict.fromkeys((self.errors, self.reentry, self.outcomes), partitions) | {self.marks: ONE_PARTITION}
        for name, count in wanted.items():
            try:
                log.topic(name)
            except UnknownTopic:
                try:
                    log.create_topic(name, count, retention_s=FOREVER)
                except TopicExists:
                    continue  # another stage was faster


def group_of(flow: str, stage: str) -> str:
    """The group under which the log knows what a stage has still to read: for its retention, and for tools.

    Where a stage goes on is not asked of it but of the ledger.
    """
    return shortened(f"towpath.{flow}.{stage}")


def producer_of(*parts: str) -> str:
    """The name of a producer: of flow and stage, or of flow, stage, output and unit. Different for different parts."""
    name = ".".join(parts)
    # A unit is named after a topic and stands last, where a dot divides nothing.
    is_plain = name.isascii() and name.isprintable() and not any("." in part for part in parts[:-1])
    return shortened(name) if is_plain else _with_hash(name, parts)


def shortened(name: str) -> str:
    """The name, or as much of it as a log allows, and a hash for the rest."""
    return name if len(name) <= LONGEST_NAME else _with_hash(name, (name,))


def _with_hash(name: str, parts: tuple[str, ...]) -> str:
    end = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    shown = "".join(each if each.isascii() and each.isprintable() else "_" for each in name)
    return f"{shown[: LONGEST_NAME - len(end) - 1]}.{end}"
