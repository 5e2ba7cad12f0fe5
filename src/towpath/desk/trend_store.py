"""The table `desk_trend`: how many errors came to each group in each of the last hours."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable

from towpath.clock import MICROS
from towpath.db import Database, Queries, Transaction

HOUR_US = 3600 * MICROS
HOURS = 24  # that are shown
KEPT_HOURS = 48

Trend = tuple[int, ...]  # the oldest hour first, the present one last


class TrendStore:
    """Counts and reads hours inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "trends", database.dialect)

    def add(self, tx: Transaction, seen: Iterable[tuple[int, int, int]]) -> None:
        """Errors have come; of each: group, how many, when the last of them was. The groups must be locked."""
        oldest = self._oldest_us()
        rows = [(group, at_us // HOUR_US, cases) for group, cases, at_us in seen if at_us >= oldest]
        if rows:
            tx.run(self._sql["add_to_trends"], {"rows": json.dumps(rows)})

    def of(self, tx: Transaction, groups: Collection[int]) -> dict[int, Trend]:
        """By group; one without errors in these hours is not in it."""
        last = self._database.now() // HOUR_US
        first = last - HOURS + 1
        found: dict[int, list[int]] = defaultdict(lambda: [0] * HOURS)
        for group, hour, cases in tx.rows(self._sql["trends"], {"groups": json.dumps(sorted(groups)), "since": first}):
            if hour <= last:  # another machine's clock may be ahead
                found[group][hour - first] = int(cases)
        return {group: tuple(hours) for group, hours in found.items()}

    def forget(self, tx: Transaction, limit: int) -> int:
        """Delete some hours that nobody looks at any more; returns how many."""
        before = self._oldest_us() // HOUR_US
        return tx.run(self._sql["forget_trends"], {"before": before, "limit": limit})

    def forget_groups(self, tx: Transaction, groups: Collection[int]) -> None:
        """These groups are gone."""
        tx.run(self._sql["forget_trends_of"], {"groups": json.dumps(sorted(groups))})

    def _oldest_us(self) -> int:
        return self._database.now() - KEPT_HOURS * HOUR_US
