"""What the last batches of a stage came to, by time: for charts.

The ledger is read from its end, so many batches at most: what is older than these is not told, and `since` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from towpath.clock import MICROS, to_datetime, to_micros
from towpath.db import Database, Queries, Transaction

MOST_BATCHES = 5_000


@dataclass(slots=True)
class Stretch:
    """What was committed from a time on, for as long as a stretch lasts."""

    at: datetime
    batches: int = 0
    read: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)  # by code


@dataclass(frozen=True, slots=True)
class PastBatches:
    """Stretches in which something was committed, the oldest first."""

    width: timedelta
    since: datetime  # before that nothing is known, or was asked for
    stretches: list[Stretch]

    @property
    def codes(self) -> list[str]:
        """Those that were met, by number."""
        return sorted({code for each in self.stretches for code in each.failed}, key=int)


class PastBatchStore:
    """Reads inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.flow", "past", database.dialect)

    def read(self, tx: Transaction, flow: str, stage: str, since: datetime, width: timedelta) -> PastBatches:
        """Since that time, in stretches of a width."""
        width_us = int(width.total_seconds() * MICROS)
        which = {"flow": flow, "stage": stage, "since_us": to_micros(since), "width_us": width_us}
        found: dict[int, Stretch] = {}
        oldest, batches = to_micros(since), 0
        for number, count, read, first in tx.rows(self._sql["counted"], {**which, "limit": MOST_BATCHES}):
            found[number] = Stretch(to_datetime(number * width_us), count, read)
            oldest = first if not batches else oldest
            batches += count
        for number, code, count in tx.rows(self._sql["failed"], {**which, "limit": MOST_BATCHES}):
            found[number].failed = {**found[number].failed, str(code): count}
        is_cut = batches >= MOST_BATCHES
        return PastBatches(width, to_datetime(oldest) if is_cut else since, list(found.values()))
