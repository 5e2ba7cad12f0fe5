"""The places in which a record can be. Every record that arrived is in exactly one: that is what the audit proves.

docs/reference/places.md is held equal to this. Batches count how many of their records are in each place: every record
that was read was loaded, filtered, has failed, or is in a place that only stages with state have, or crashes. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from towpath.db import Transaction
from towpath.flow.delivery.positions import Spot


class RecordPlace(StrEnum):
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
        return self is not RecordPlace.SKIPPED


# Where the row of a batch may say that its records are: together they are what it has read. A join's *joining* goes
# down in the batch in which partners have come.
BY_BATCH = (
    RecordPlace.LOADED,
    RecordPlace.FILTERED,
    RecordPlace.AGGREGATED,
    RecordPlace.UNMATCHED,
    RecordPlace.JOINING,
    RecordPlace.FAILED,
    RecordPlace.BLOCKED,
    RecordPlace.DUPLICATE,
    RecordPlace.FORFEITED,
)

NAMES = ("read", "loaded", "filtered", "failed")
RARE = tuple(str(place) for place in BY_BATCH if place not in NAMES)


@dataclass(frozen=True, slots=True)
class FailureHoldings:
    """The failures of a flow that a source such as the desk holds, at the moment at which the ledger is read."""

    at_us: int
    positions: Mapping[Spot, int]  # how far each partition of the error topic was read
    records: int  # error records of the flow that were read, of whatever kind
    repeats: int  # those among them that had been told before
    strays: int  # those that no flow has written
    attempts: int  # failures that are kept, and those that were forgotten since
    places: Mapping[tuple[str, RecordPlace], int]  # by the hash of the batch in which a record has failed first
    sent: Mapping[str, tuple[str, int]]  # what is out: by correlation id that hash, and the number of the attempt


class PlaceSource(Protocol):
    """Knows more about the records that failed. The desk is one; flows need not know it."""

    def holdings(self, tx: Transaction, flow: str) -> FailureHoldings | None:
        """What it holds, read in the transaction that reads the ledger; None when it has never looked at that flow."""

    def known(self, correlations: Collection[str]) -> set[str]:
        """Those of some correlation ids under which it sends, or has sent, records of its own."""

    def resolved(self, correlations: Collection[str], until_us: int) -> set[str]:
        """Those of some whose record was loaded or filtered, and that was known at a time."""


def counts_of(totals: Mapping[str, Any]) -> dict[str, int]:
    """Read, loaded, filtered, failed, and what there is in rarer places, each as one number."""
    found = {name: totals.get(name, 0) for name in (*NAMES, *RARE) if name in NAMES or totals.get(name)}
    return {name: value if isinstance(value, int) else sum(value.values()) for name, value in found.items()}


def names_of(several: Iterable[Mapping[str, int]]) -> tuple[str, ...]:
    """The columns of a table of counts: the usual ones, and the rarer ones that any of these counts has."""
    there = {name for counts in several for name in counts}
    return (*NAMES, *(name for name in RARE if name in there))
