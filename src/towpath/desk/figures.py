"""The desk in figures, for metrics: how many cases there are, and how late lanes are."""

from __future__ import annotations

from towpath.clock import MICROS
from towpath.db import Database, Queries


class Figures:
    """Asked anew each time; what it costs does not depend on how many cases there are."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "watch", database.dialect)

    def cases(self) -> list[tuple[str, str, int]]:
        """Cases by flow and state."""
        with self._database.glance() as tx:
            return [(flow, state, int(cases)) for flow, state, cases in tx.rows(self._sql["cases_by_state"], {})]

    def late_s(self) -> list[tuple[str, int, float]]:
        """By lane, for how long the first record has been due; 0 when none is."""
        with self._database.glance() as tx:
            found = tx.rows(self._sql["first_due"], {})
        now_us = self._database.now()
        return [(flow, lane, max(0.0, (now_us - (due_us or now_us)) / MICROS)) for flow, lane, due_us in found]
