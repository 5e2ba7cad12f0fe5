"""Deletes what the desk would keep for ever: traces and groups that nothing needs, and what corrections have learned.

In small portions: on SQLite a transaction that writes holds up all others. What is past its time is looked for outside
of it where that takes long, and asked again in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

from towpath.clock import MICROS
from towpath.db import Database, Queries
from towpath.desk.corrections.evidence_store import EvidenceStore
from towpath.desk.corrections.rule_store import RuleStore
from towpath.desk.corrections.touched_store import TouchedStore
from towpath.desk.trend_store import TrendStore
from towpath.events import Events
from towpath.service import Result, Service
from towpath.settings import DeskSettings

PORTION = 500
GROUPS = 100
TRACES_EVERY_S = 86400.0  # all attempts are read for it
TRACE_AGE_US = 2 * 3600 * MICROS  # intake says once an hour that a trace is needed


class DeskUpkeep(Service):
    """Any number may run; two at once only share the work."""

    name = "desk upkeep"

    def __init__(self, database: Database, settings: DeskSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._sql = Queries("towpath.desk", "upkeep", database.dialect)
        self._rules = RuleStore(database)
        self._evidence = EvidenceStore(database)
        self._touched = TouchedStore(database)
        self._trends = TrendStore(database)
        self._swept = float("-inf")

    def run_once(self) -> Result:
        done = self.forget_groups() + self.forget_trends() + self.forget_touched() + self.forget_evidence()
        if time.monotonic() - self._swept >= TRACES_EVERY_S:
            done += self.forget_traces()
            self._swept = time.monotonic()
        return Result(done, self._settings.janitor_s)

    # Groups

    def forget_groups(self) -> int:
        """Groups that have had no error for long, and have no case; returns how many."""
        return self._all(self._settings.group_retention_s, self._forget_groups, GROUPS)

    def _forget_groups(self, before: int) -> int:
        with self._database.read() as tx:
            old = [id for (id,) in tx.rows(self._sql["old_groups"], {"before": before, "limit": GROUPS})]
        if not old:
            return 0
        with self._database.transaction() as tx:
            tx.rows(self._sql["lock_groups"], {"ids": json.dumps(old)})
            # Asked anew now that no intake can put cases into them: another group may be merged into one, too.
            still = tx.rows(self._sql["empty_groups"], {"ids": json.dumps(old), "before": before})
            empty = json.dumps([id for (id,) in still])
            self._trends.forget_groups(tx, [id for (id,) in still])
            for part in ("forget_fingerprints", "forget_tallies", "forget_group_history"):
                tx.run(self._sql[part], {"ids": empty})
            return tx.run(self._sql["forget_groups"], {"ids": empty})

    def forget_trends(self) -> int:
        """Hours of groups that nobody looks at any more; returns how many."""
        return self._all(0.0, self._forget_trends, PORTION)

    def _forget_trends(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._trends.forget(tx, PORTION)

    # Corrections

    def forget_touched(self) -> int:
        """What rules have changed long ago, verdicts of operators, and marks of edits whose cases are gone."""
        age_s, done = self._settings.touched_retention_s, 0
        with self._database.read() as tx:
            rules = self._rules.list(tx)
        for rule in rules:
            done += self._all(age_s, partial(self._forget_touched, rule.id), PORTION)
        done += self._all(age_s, self._forget_verdicts, PORTION)
        return done + self._all(0.0, self._forget_marks, PORTION)

    def _forget_touched(self, rule: int, before: int) -> int:
        with self._database.transaction() as tx:
            return self._touched.forget(tx, rule, before, PORTION)

    def _forget_verdicts(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._evidence.forget_verdicts(tx, before, PORTION)

    def _forget_marks(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._evidence.forget_marks(tx, PORTION)

    def forget_evidence(self) -> int:
        """Counts that nothing has confirmed for long; returns how many."""
        return self._all(self._settings.evidence_retention_s, self._forget_evidence, PORTION)

    def _forget_evidence(self, before: int) -> int:
        with self._database.read() as tx:
            rows = self._evidence.old(tx, before, PORTION)
        if not rows:
            return 0
        with self._database.transaction() as tx:
            return self._evidence.forget(tx, rows, before)

    # Traces

    def forget_traces(self) -> int:
        """Traces that no attempt of any case has any more; returns how many."""
        before = self._database.now() - TRACE_AGE_US
        with self._database.read() as tx:
            old = {id for (id,) in tx.rows(self._sql["old_traces"], {"before": before})}
            needed = {id for (id,) in tx.rows(self._sql["needed_traces"], {})} if old else set()
        free, done = sorted(old - needed), 0
        for begin in range(0, len(free), PORTION):
            names = json.dumps(free[begin : begin + PORTION])
            with self._database.transaction() as tx:
                done += tx.run(self._sql["forget_traces"], {"names": names, "before": before})
        return done

    def _all(self, age_s: float | None, forget: Callable[[int], int], portion: int) -> int:
        """Portion by portion, of what is older than that; None: never."""
        if age_s is None:
            return 0
        before, done = self._database.now() - int(age_s * MICROS), 0
        while not self.is_stopping:
            more = forget(before)
            done += more
            if more < portion:
                break
        return done
