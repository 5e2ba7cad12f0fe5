"""What tables of both databases read in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator

from towpath.db.table_sql import DELIVERY_ID, quoted


class TableReading(ABC):
    """Stands on `scan` and on questions whose answer is one number."""

    def count(self, table: str) -> int:
        return self._number(table, f"select count(*) from {quoted(table)}")  # noqa: S608 - quoted name

    def duplicates(self, table: str) -> int:
        statement = f"select count(*) - count(distinct {DELIVERY_ID}) from {quoted(table)}"  # noqa: S608 - quoted name
        return self._number(table, statement)

    def existing(self, table: str, delivery_ids: Collection[bytes]) -> dict[bytes, int]:
        wanted = frozenset(delivery_ids)
        return {id: version for id, version in self.scan(table) if id in wanted}

    @abstractmethod
    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        """Delivery id and version of every row; nothing when there is no such table."""

    @abstractmethod
    def _number(self, table: str, statement: str) -> int:
        """The answer, 0 when there is no such table."""
