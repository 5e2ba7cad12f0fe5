"""Watching the desk: a lane that is stuck and a flow that fills the desk are told to people.

New and regressed groups are told by the intake, which finds them.
"""

from __future__ import annotations

from collections.abc import Iterator

from towpath.clock import MICROS
from towpath.db import Database, Queries, Transaction
from towpath.events import Events
from towpath.notify.notice import Notice, NoticeKind, Teller
from towpath.service import Result, Service
from towpath.settings import NotifySettings

LOOKS_EVERY_S = 10.0


class DeskWatch(Service):
    """Looks every few seconds. Two at once tell the same thing, which counts once."""

    name = "desk watch"

    def __init__(self, database: Database, teller: Teller, settings: NotifySettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._teller = teller
        self._settings = settings
        self._sql = Queries("towpath.desk", "watch", database.dialect)

    def run_once(self) -> Result:
        return Result(self.look(), min(LOOKS_EVERY_S, self._settings.lane_stuck_s, self._settings.growing_s))

    def look(self) -> int:
        """Tell what is found now; returns how much that is."""
        with self._database.read() as tx:
            found = [*self._stuck(tx), *self._growing(tx)]
        if found:
            with self._database.transaction() as tx:
                for notice in found:
                    self._teller.tell(tx, notice)
        return len(found)

    def _stuck(self, tx: Transaction) -> Iterator[Notice]:
        now_us, least_s = self._database.now(), self._settings.lane_stuck_s
        for flow, partition, due_us in tx.rows(self._sql["first_due"], {}):
            late_s = 0.0 if due_us is None else (now_us - due_us) / MICROS
            if late_s >= least_s:
                title = f"lane {partition} of {flow} is stuck: what was due {late_s:.0f} s ago is not released"
                data = {"flow": flow, "lane": partition, "late_s": round(late_s)}
                yield Notice(NoticeKind.LANE_STUCK, f"{flow}/{partition}", title, data)

    def _growing(self, tx: Transaction) -> Iterator[Notice]:
        cases, within_s = self._settings.growing_cases, self._settings.growing_s
        since_us = self._database.now() - int(within_s * MICROS)
        for (flow,) in tx.rows(self._sql["flows"], {}):
            rows = tx.rows(self._sql["taken_before_last"], {"flow": flow, "skip": cases - 1})
            if rows and rows[0][0] >= since_us:
                title = f"{flow} fills the desk: {cases:,} or more cases were opened within {within_s:.0f} s"
                yield Notice(NoticeKind.DESK_GROWING, flow, title, {"flow": flow, "cases": cases})
