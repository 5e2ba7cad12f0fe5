"""The places in which a record can be. Every record that arrived is in exactly one: that is what the audit proves.

docs/reference/places.md is held equal to this.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class Place(StrEnum):
    """In order, from settled to least settled. A record with several deliveries is in the last of their places."""

    LOADED = "loaded"  # every output that was to have it has it
    FILTERED = "filtered"  # a step gave nothing for it
    AGGREGATED = "aggregated"  # it went into a sum with others and has no life of its own any more
    UNMATCHED = "unmatched"  # a join has found no partner for it, and will not look any more
    JOINING = "joining"  # a join keeps it until its partner comes
    FAILED = "failed"  # it lies in the error topic; the desk has not come to it
    WAITING = "waiting"  # in a lane, to be tried again when it is due
    PARKED = "parked"  # behind another record of its key
    OPEN = "open"  # on the desk, in front of a person
    REPLAYING = "replaying"  # sent back into the flow; what became of it is not known yet
    RESENT = "resent"  # sent to the source again, where it counts as a new record
    IGNORED = "ignored"  # dismissed by a rule that a person has approved
    ABANDONED = "abandoned"  # dismissed by a person
    BLOCKED = "blocked"  # a block rule keeps it out
    DUPLICATE = "duplicate"  # its sender had sent it before
    FORFEITED = "forfeited"  # at most once: nobody knows whether it was written, and it is not written again
    IN_FLIGHT = "in flight"  # in the topic, beyond the last batch that was committed
    SKIPPED = "skipped"  # beside the others: deleted before it was read, so nobody can say whether it ever was

    @property
    def is_balanced(self) -> bool:
        """Whether it counts on the right side of `arrived = …`."""
        return self is not Place.SKIPPED


# Where the row of a batch may say that its records are: together they are what it has read. A join's *joining* goes
# down in the batch in which partners have come.
BY_BATCH = (
    Place.LOADED,
    Place.FILTERED,
    Place.AGGREGATED,
    Place.UNMATCHED,
    Place.JOINING,
    Place.FAILED,
    Place.DUPLICATE,
    Place.FORFEITED,
)


class Places(Protocol):
    """Somebody who knows more about the records that failed. The desk is one; flows need not know it."""

    def among_failed(self, flow: str) -> Mapping[Place, int]:
        """How many of the records in the error topic are in which other place by now."""
