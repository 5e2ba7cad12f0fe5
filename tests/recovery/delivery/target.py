"""What every sink under test has in common.

By itself, because the graphs under test need no more: each Python process of Spark that runs one of their steps loads
them, and would load the drivers of all databases with them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from towpath.log import Log

Child = tuple[int, int]  # the number of a record, and which of its children
Rows = list[dict[str, Any]]


class Target(Protocol):
    """Where a case writes."""

    kind: str
    may_refuse: bool
    prefix: str  # of the names of flows and topics: a broker is shared by many cases

    def sink(self, output: str) -> Any:
        """The sink for one output."""

    def rows(self, output: str, log: Log) -> Rows:
        """Every document that is there, as often as it is there."""


def children(rows: Rows) -> Counter[Child]:
    return Counter((row["n"], row.get("child", 0)) for row in rows)
