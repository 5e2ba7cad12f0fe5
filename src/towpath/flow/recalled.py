"""The table `flow_recalled`: what was called back after it was sent, and before its stage has read it.

A record in the re-entry topic cannot be taken out of it. So its stage passes over it, by the case that it names and the
ticket under which it was sent. Whoever calls it back holds the row of the stage in the same transaction, and has seen
that no batch covers the record: every batch that ever does is fixed later, and each of its attempts finds it here.
"""

from __future__ import annotations

from collections.abc import Iterable

from towpath.db import Database, Queries, Transaction
from towpath.flow.reentry_record import Sent


class Recalled:
    """Written and read inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.flow", "recalled", database.dialect)

    def add(self, tx: Transaction, flow: str, sent: Iterable[Sent]) -> None:
        """These are not to be taken."""
        for correlation, ticket in sorted(sent):
            tx.run(self._sql["recall"], {"flow": flow, "correlation": correlation, "ticket": ticket})

    def of(self, tx: Transaction, flow: str) -> frozenset[Sent]:
        """All of a flow: persons have called them back one by one."""
        return frozenset((str(case), int(ticket)) for case, ticket in tx.rows(self._sql["recalled"], {"flow": flow}))
