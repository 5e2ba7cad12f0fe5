"""Deletes what the desk would otherwise keep forever.

`CaseJanitor` deletes cases past their retention time with all that belongs to them, and body files that no row names.
`BulkJanitor` deletes bulk jobs and their items. `DeskUpkeep` deletes empty groups, old trends, unused traces, and
what learned corrections no longer need.

All work in small portions, since on SQLite a write transaction blocks all others. Where it takes long to find what is
past its time, that is looked up outside the write transaction and checked again inside it.
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

# Deleted in one transaction.
CASES_AT_ONCE = 500
ITEMS_AT_ONCE = 2_000
JOBS_AT_ONCE = 100
GROUPS_AT_ONCE = 100
AT_ONCE = 500  # of all else
TRACES_EVERY_S = 86400.0  # all attempts are read for it
TRACE_AGE_US = 2 * 3600 * MICROS  # intake says once an hour that a trace is needed

_FORGETTING = ("forget_attempts", "forget_bodies", "forget_edits", "forget_history", "forget_cases")


class CaseJanitor(Service):
    """Deletes cases past their retention time. Any number may run. The audit still knows how many were deleted."""

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
        bounds = {"before": self._database.now() - int(age_s * MICROS), "limit": CASES_AT_ONCE}
        return _in_portions(self, CASES_AT_ONCE, lambda: self._forget(query, {**bounds, **which}))

    def _forget(self, query: str, which: dict[str, str | int]) -> int:
        with self._database.transaction() as tx:
            rows = tx.rows(self._sql[query], dict(which))
            if not rows:
                return 0
            ids = json.dumps([str(row[0]) for row in rows])
            for part in _FORGETTING:
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


class BulkJanitor(Service):
    """Deletes ended bulk jobs. Items go first, in portions; a job goes when it has none left."""

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
            return self._jobs.forget_items(tx, before, ITEMS_AT_ONCE) or self._jobs.forget(tx, before, JOBS_AT_ONCE)


class DeskUpkeep(Service):
    """Deletes groups, trends, traces and counts that nothing needs. Any number may run; two at once share the work."""

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
        return self._each(0.0, lambda tx, _: self._trends.forget(tx, AT_ONCE))

    # Corrections

    def forget_touched(self) -> int:
        """What rules have changed long ago, verdicts of operators, and marks of edits whose cases are gone."""
        age_s, done = self._settings.touched_retention_s, 0
        with self._database.read() as tx:
            rules = self._rules.list(tx)
        for rule in rules:
            done += self._each(age_s, partial(self._touched.forget, rule=rule.id, limit=AT_ONCE))
        done += self._each(age_s, partial(self._evidence.forget_verdicts, limit=AT_ONCE))
        return done + self._each(0.0, lambda tx, _: self._evidence.forget_marks(tx, AT_ONCE))

    def forget_evidence(self) -> int:
        """Counts that nothing has confirmed for long; returns how many."""
        return self._all(self._settings.evidence_retention_s, self._forget_evidence, AT_ONCE)

    def _forget_evidence(self, before: int) -> int:
        with self._database.read() as tx:
            rows = self._evidence.old(tx, before, AT_ONCE)
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
        for begin in range(0, len(free), AT_ONCE):
            names = json.dumps(free[begin : begin + AT_ONCE])
            with self._database.transaction() as tx:
                done += tx.run(self._sql["forget_traces"], {"names": names, "before": before})
        return done

    def _each(self, age_s: float | None, forget: Callable[[Transaction, int], int]) -> int:
        """Delete what is older than that; each portion is one transaction."""

        def in_transaction(before: int) -> int:
            with self._database.transaction() as tx:
                return forget(tx, before)

        return self._all(age_s, in_transaction, AT_ONCE)

    def _all(self, age_s: float | None, forget: Callable[[int], int], portion: int) -> int:
        """Delete what is older than that, portion by portion; None: never."""
        if age_s is None:
            return 0
        before = self._database.now() - int(age_s * MICROS)
        return _in_portions(self, portion, lambda: forget(before))


def _in_portions(service: Service, portion: int, forget: Callable[[], int]) -> int:
    """Until one portion is not full, or the service is stopped; returns how many were deleted."""
    done = 0
    while not service.is_stopping:
        more = forget()
        done += more
        if more < portion:
            break
    return done
