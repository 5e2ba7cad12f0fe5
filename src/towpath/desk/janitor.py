"""Deletes what the desk would keep for ever: traces and groups that nothing needs, and what corrections have learned.

In small portions: on SQLite a transaction that writes holds up all others. What is past its time is looked for outside
of it where that takes long, and asked again in it.

Deletes cases whose retention time is over, with all that belongs to them, and files that no body names.

Deletes bulk jobs whose time is over, with their items: as long ago as settled cases are deleted.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.desk.actions.job_store import JobStore
from towpath.desk.cases.blobs import Blobs
from towpath.desk.cases.model import CaseState
from towpath.desk.cases.pages import Changes, TallyStore
from towpath.desk.corrections.store import EvidenceStore, RuleStore, TouchedStore
from towpath.desk.groups.store import TrendStore
from towpath.flow.stage.store import StageStore
from towpath.settings import DeskSettings

UPKEEP_PORTION = 500
GROUPS_AT_ONCE = 100
TRACES_EVERY_S = 86400.0  # all attempts are read for it
TRACE_AGE_US = 2 * 3600 * MICROS  # intake says once an hour that a trace is needed


class DeskUpkeep(Service):
    """Any number may run; two at once only share the work."""

    name = "desk upkeep"

    def __init__(self, database: Database, settings: DeskSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._sql = Queries("towpath.desk", "janitor", database.dialect)
        self._rules = RuleStore(database)
        self._evidence = EvidenceStore(database)
        self._touched = TouchedStore(database)
        self._trends = TrendStore(database)
        self._swept = float("-inf")

    def run_once(self) -> RoundResult:
        done = self.forget_groups() + self.forget_trends() + self.forget_touched() + self.forget_evidence()
        if time.monotonic() - self._swept >= TRACES_EVERY_S:
            done += self.forget_traces()
            self._swept = time.monotonic()
        return RoundResult(done, self._settings.janitor_s)

    # Groups

    def forget_groups(self) -> int:
        """Groups that have had no error for long, and have no case; returns how many."""
        return self._all(self._settings.group_retention_s, self._forget_groups, GROUPS_AT_ONCE)

    def _forget_groups(self, before: int) -> int:
        with self._database.read() as tx:
            old = [id for (id,) in tx.rows(self._sql["old_groups"], {"before": before, "limit": GROUPS_AT_ONCE})]
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
        return self._all(0.0, self._forget_trends, UPKEEP_PORTION)

    def _forget_trends(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._trends.forget(tx, UPKEEP_PORTION)

    # Corrections

    def forget_touched(self) -> int:
        """What rules have changed long ago, verdicts of operators, and marks of edits whose cases are gone."""
        age_s, done = self._settings.touched_retention_s, 0
        with self._database.read() as tx:
            rules = self._rules.list(tx)
        for rule in rules:
            done += self._all(age_s, partial(self._forget_touched, rule.id), UPKEEP_PORTION)
        done += self._all(age_s, self._forget_verdicts, UPKEEP_PORTION)
        return done + self._all(0.0, self._forget_marks, UPKEEP_PORTION)

    def _forget_touched(self, rule: int, before: int) -> int:
        with self._database.transaction() as tx:
            return self._touched.forget(tx, rule, before, UPKEEP_PORTION)

    def _forget_verdicts(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._evidence.forget_verdicts(tx, before, UPKEEP_PORTION)

    def _forget_marks(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._evidence.forget_marks(tx, UPKEEP_PORTION)

    def forget_evidence(self) -> int:
        """Counts that nothing has confirmed for long; returns how many."""
        return self._all(self._settings.evidence_retention_s, self._forget_evidence, UPKEEP_PORTION)

    def _forget_evidence(self, before: int) -> int:
        with self._database.read() as tx:
            rows = self._evidence.old(tx, before, UPKEEP_PORTION)
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
        for begin in range(0, len(free), UPKEEP_PORTION):
            names = json.dumps(free[begin : begin + UPKEEP_PORTION])
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
        self._sql = Queries("towpath.desk", "case_janitor", database.dialect)
        self._tallies = TallyStore(database)
        self._stages = StageStore(database)

    def run_once(self) -> RoundResult:
        return RoundResult(self.clean() + self.sweep(), self._settings.janitor_s)

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


PORTION = 2_000  # items that are deleted at once
JOBS = 100


class BulkJanitor(Service):
    """Looks now and then. Items go first, in portions; a job goes when it has none left."""

    name = "bulk janitor"

    def __init__(self, database: Database, settings: DeskSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._jobs = JobStore(database)

    def run_once(self) -> RoundResult:
        deleted = 0
        if self._settings.retention_s is not None:
            before = self._database.now() - round(self._settings.retention_s * MICROS)
            while (count := self._clean(before)) and not self.is_stopping:
                deleted += count
        return RoundResult(deleted, self._settings.janitor_s)

    def _clean(self, before: int) -> int:
        with self._database.transaction() as tx:
            return self._jobs.forget_items(tx, before, PORTION) or self._jobs.forget(tx, before, JOBS)
