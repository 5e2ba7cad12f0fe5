"""What is a process's own besides the messages that it has claimed: others take it over once it is dead."""

from __future__ import annotations

from towpath.db import Database, Queries, Transaction

WHAT = ("instances", "stages", "lanes")


class Holdings:
    """Counts it."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.supervision", "holdings", database.dialect)

    def of(self, tx: Transaction, process_id: str) -> dict[str, int]:
        """Instances of actors, stages of flows, lanes of the desk."""
        counts = tx.rows(self._sql["held_by"], {"process_id": process_id})[0]
        return dict(zip(WHAT, counts, strict=True))
