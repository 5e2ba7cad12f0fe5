"""The balance of a flow as the ledger and the desk say it, without reading a record: cheap, and no proof.

The audit counts the records themselves and does not take the ledger's word. Where that would take too long, this says
at least whether the ledger agrees with itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.db import Database, Transaction
from towpath.flow.batch_counts import counts_of
from towpath.flow.ledger import Ledger
from towpath.flow.look import looks
from towpath.flow.place import BY_BATCH, Place, Places


@dataclass(frozen=True, slots=True)
class LedgerBalance:
    """Figures in records, of all stages. What failed is counted once more at the desk, which has come to it."""

    read: int
    places: Mapping[Place, int]  # where batches have put what they read
    desk: Mapping[Place, int] = field(default_factory=dict)  # where those are now that have failed
    lag: int | None = None  # offsets that were not read when the stages last looked; None: not known
    skipped: int = 0  # offsets: at most so many records

    @property
    def difference(self) -> int:
        """Not 0: the ledger contradicts itself."""
        return self.read - sum(self.places.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "places": dict(self.places),
            "difference": self.difference,
            "desk": dict(self.desk),
            "in_flight_at_most": self.lag,
            "skipped_at_most": self.skipped,
        }


def ledger_balance(database: Database, flow: str, places: Places | None = None) -> LedgerBalance:
    """Raises `UnknownFlow`."""
    found = looks(database, flow)
    ledger = Ledger(database)
    total: Counter[str] = Counter()
    with database.read() as tx:
        for counts in ledger.totals(tx, flow).values():
            total.update(counts_of(counts))
        gaps = ledger.gaps(tx, flow)
        desk = _desk(tx, flow, places)
    lags = [look.stage.sample["lag"] for look in found if "lag" in look.stage.sample]
    return LedgerBalance(
        total["read"],
        {place: total[place] for place in BY_BATCH if total[place]},
        desk,
        sum(lags) if len(lags) == len(found) else None,
        sum(gap.stop - gap.start for gap in gaps),
    )


def _desk(tx: Transaction, flow: str, places: Places | None) -> dict[Place, int]:
    holdings = None if places is None else places.holdings(tx, flow)
    found: Counter[Place] = Counter()
    for (_, place), count in () if holdings is None else holdings.places.items():
        found[place] += count
    return {place: found[place] for place in Place if found[place]}
