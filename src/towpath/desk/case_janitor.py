"""Deletes cases whose retention time is over, with all that belongs to them, and files that no body names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from towpath import crash
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.desk.blobs import Blobs
from towpath.desk.case_state import CaseState
from towpath.desk.tally_store import Changes, TallyStore
from towpath.events import Event, EventKind, Events
from towpath.flow.stage_store import StageStore
from towpath.service import Result, Service
from towpath.settings import DeskSettings

MOST_PER_COMMIT = 500
_PARTS = ("forget_attempts", "forget_bodies", "forget_edits", "forget_history", "forget_cases")


class CaseJanitor(Service):
    """Any number may run; two at once only share the work. How many it has deleted stays known, for the audit."""

    name = "desk janitor"

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        settings: DeskSettings,
        events: Events,
        record: Callable[[Transaction, Event], None],
    ) -> None:
        super().__init__(events)
        self._database = database
        self._blobs = blobs
        self._settings = settings
        self._record = record
        self._sql = Queries("towpath.desk", "forgetting", database.dialect)
        self._tallies = TallyStore(database)
        self._stages = StageStore(database)

    def run_once(self) -> Result:
        return Result(self.clean() + self.sweep(), self._settings.janitor_s)

    def clean(self) -> int:
        """Delete all cases that are past their time; returns how many."""
        done = 0
        if self._settings.retention_s is not None:
            done += self._all("settled_before", self._settings.retention_s)
        if self._settings.ignored_retention_s is not None:
            with self._database.read() as tx:
                flows = sorted({stage.flow for stage in self._stages.list(tx)})
            done += sum(self._all("ignored_before", self._settings.ignored_retention_s, flow=flow) for flow in flows)
        return done

    def sweep(self) -> int:
        """Delete files of bodies that were let go; returns how many."""
        return self._blobs.sweep(self._named)

    def _all(self, query: str, age_s: float, **which: str) -> int:
        before, done = self._database.now() - int(age_s * MICROS), 0
        while not self.is_stopping:
            forgotten = self._forget(query, {"before": before, "limit": MOST_PER_COMMIT, **which})
            done += forgotten
            if forgotten < MOST_PER_COMMIT:
                break
        return done

    def _forget(self, query: str, which: dict[str, str | int]) -> int:
        with self._database.transaction() as tx:
            rows = tx.rows(self._sql[query], dict(which))
            if not rows:
                return 0
            ids = json.dumps([str(row[0]) for row in rows])
            for part in _PARTS:
                tx.run(self._sql[part], {"ids": ids})
            self._add_up(tx, rows)
            self._record(tx, Event(EventKind.CASES_FORGOTTEN, "desk", data={"cases": len(rows)}))
            crash.here(CrashPoint.DESK_FORGET_BEFORE_COMMIT)
        crash.here(CrashPoint.DESK_FORGET_AFTER_COMMIT)
        return len(rows)

    def _add_up(self, tx: Transaction, rows: Sequence[Row]) -> None:
        tallies: Changes = Counter()
        cases: Counter[tuple[str, str, str]] = Counter()
        attempts: Counter[tuple[str, str, str]] = Counter()
        for _, flow, kind, state, group, tried in rows:
            tallies[group, CaseState(state)] -= 1
            cases[flow, kind, state] += 1
            attempts[flow, kind, state] += tried
        self._tallies.add(tx, tallies)
        for (flow, kind, state), count in sorted(cases.items()):
            said = {"flow": flow, "kind": kind, "state": state, "cases": count}
            tx.run(self._sql["add_forgotten"], {**said, "attempts": attempts[flow, kind, state]})

    def _named(self, names: Collection[str]) -> set[str]:
        with self._database.read() as tx:
            return {blob for (blob,) in tx.rows(self._sql["named_blobs"], {"names": json.dumps(sorted(names))})}
