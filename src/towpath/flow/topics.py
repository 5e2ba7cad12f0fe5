"""The topics that every flow has beside those it reads: for errors, for what comes back from the desk, for outcomes.

They are made before the first batch and kept for ever. The re-entry topic is read from the first batch on, because
what a checkpoint reads cannot be changed later.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from towpath.errors import TopicExists, UnknownTopic
from towpath.log.log import Log

FOREVER = "never"
LONGEST_GROUP = 249  # characters that a log allows


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """Names."""

    errors: str
    reentry: str
    outcomes: str

    @classmethod
    def of(cls, flow: str, error_topic: str | None = None) -> FlowTopics:
        return cls(error_topic or f"{flow}.errors", f"{flow}.reentry", f"{flow}.outcomes")

    def ensure(self, log: Log, partitions: int | None = None) -> None:
        """Make those that are not there."""
        for name in (self.errors, self.reentry, self.outcomes):
            try:
                log.topic(name)
            except UnknownTopic:
                try:
                    log.create_topic(name, partitions, retention_s=FOREVER)
                except TopicExists:
                    continue  # another stage was faster


def group_of(flow: str, stage: str) -> str:
    """The group under which the log knows what a stage has still to read: for its retention, and for tools.

    Where a stage goes on is not asked of it but of the ledger.
    """
    name = f"towpath.{flow}.{stage}"
    if len(name) <= LONGEST_GROUP:
        return name
    end = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_GROUP - len(end) - 1]}.{end}"
